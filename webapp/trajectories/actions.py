"""Actions on trajectories: sharing, revoking, counting views."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.teams.models import User
from webapp.trajectories.models import ShareLink, Trajectory


@transaction.atomic
def do_share_trajectory(
    trajectory: Trajectory,
    author: User,
    expires_at: datetime | None = None,
    *,
    turn: int | None = None,
    action: int | None = None,
    indexable: bool = False,
) -> ShareLink:
    """Create a share link, or return the author's active link with the same position and expiry.

    The player opens at `turn` and `action` (0-based); `action` None or −1 is the turn's start.
    """
    Trajectory.objects.select_for_update().only("pk").get(pk=trajectory.pk)
    fields = {
        "trajectory": trajectory,
        "author": author,
        "expires_at": expires_at,
        "turn": turn,
        "action": None if turn is None or action is None or action < 0 else action,
        "indexable": indexable,
    }
    return ShareLink.objects.open(timezone.now()).filter(**fields).first() or ShareLink.objects.create(**fields)


def do_revoke_share(share: ShareLink) -> None:
    """Revoke the link permanently. Revoking it again changes nothing."""
    ShareLink.objects.filter(pk=share.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())
    share.refresh_from_db()


def do_count_view(share: ShareLink, now: datetime) -> None:
    """Count a view. Concurrent views are both counted."""
    ShareLink.objects.filter(pk=share.pk).update(views=F("views") + 1, last_viewed_at=now)
