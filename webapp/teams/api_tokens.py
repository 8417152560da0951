"""Secrets of API tokens: how one looks, what is kept of it, and finding the token it belongs to.

Making and revoking tokens is in actions.py.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from webapp.core import ids
from webapp.teams.models import ApiToken

MARK = "es_"
SHOWN = len(MARK) + 6
"""How much of a secret is kept to recognise it by; what is left is 104 bits."""
NOTE_EVERY = timedelta(minutes=1)


def new_secret() -> str:
    """What a program sends: `es_` and 24 characters."""
    return MARK + ids.token()


def digest(secret: str) -> str:
    """All that is kept of a secret. It is random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find_token(secret: str) -> ApiToken | None:
    """The token of that secret, with its team and user, if it may still be used. Notes when, to the minute."""
    if not secret.startswith(MARK) or not secret.isascii():
        return None
    now = timezone.now()
    wanted = digest(secret)
    alike = ApiToken.objects.usable(now).select_related("team", "user").filter(prefix=secret[:SHOWN])
    found = next((token for token in alike if hmac.compare_digest(token.digest, wanted)), None)
    if found is None:
        return None
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - NOTE_EVERY)
    if ApiToken.objects.filter(stale, pk=found.pk).update(last_used_at=now):
        found.last_used_at = now
    return found
