"""Secrets of API tokens: format, digest and look-up."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from webapp.core import ids
from webapp.teams.models import ApiToken

MARK = "es_"
PREFIX_LENGTH = len(MARK) + 6
"""Length of the stored prefix by which users recognise a token; the rest has 104 bits."""
LAST_USED_INTERVAL = timedelta(minutes=1)


def new_secret() -> str:
    """Return a new secret: `es_` and 24 characters."""
    return MARK + ids.token()


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret, the only form stored. Secrets are random, so a plain hash suffices."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find_token(secret: str) -> ApiToken | None:
    """Return the usable token with that secret, its team and its user. Updates `last_used_at` to the minute."""
    if not secret.startswith(MARK) or not secret.isascii():
        return None
    now = timezone.now()
    expected = digest(secret)
    candidates = ApiToken.objects.usable(now).select_related("team", "user").filter(prefix=secret[:PREFIX_LENGTH])
    token = next((candidate for candidate in candidates if hmac.compare_digest(candidate.digest, expected)), None)
    if token is None:
        return None
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - LAST_USED_INTERVAL)
    if ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now):
        token.last_used_at = now
    return token
