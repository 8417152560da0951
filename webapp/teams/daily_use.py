"""Daily counts of limited actions by a person or a team: mails to strangers, imports."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from django.db import connection
from django.utils import timezone

from webapp.core.quotas import QuotaExceeded, quota
from webapp.teams.models import DailyUse, Team, User

KEEP = timedelta(days=7)


class Kind(StrEnum):
    """Kinds of counted actions; each has a quota, the name of its setting without ECHOSCOPE_MAX_."""

    INVITATIONS = "INVITATIONS_PER_DAY"
    TEST_ALERTS = "TEST_ALERTS_PER_DAY"
    CONFIRMATIONS = "CONFIRMATIONS_PER_DAY"
    IMPORTS = "IMPORTS_PER_DAY"


_TAKE = """
INSERT INTO teams_dailyuse (kind, subject, day, count) VALUES (%s, %s, %s, 1)
ON CONFLICT (kind, subject, day) DO UPDATE SET count = teams_dailyuse.count + 1 WHERE teams_dailyuse.count < %s
RETURNING count
"""


def do_count_use(kind: Kind, subject: User | Team, refusal: str) -> None:
    """Count one use today (UTC). Raises QuotaExceeded with the sentence `refusal` once the quota is reached."""
    limit = quota(kind)
    if not limit:
        return
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [kind.name.lower(), subject.pk, timezone.now().date(), limit])
        if cursor.fetchone() is None:
            raise QuotaExceeded(f"{refusal} The limit is {limit:,} a day. Try again tomorrow, or ask the operator.")


def do_forget_uses(now: datetime) -> None:
    """Delete counts of past days."""
    DailyUse.objects.filter(day__lt=(now - KEEP).date()).delete()
