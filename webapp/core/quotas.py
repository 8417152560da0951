"""Quotas of the site: settings that limit what a team, a person or a run may use. 0 means no limit."""

from __future__ import annotations

from django.conf import settings


class QuotaExceeded(ValueError):
    """A quota is reached, and nothing was changed. The message names the quota and says what to do."""


def quota(name: str) -> int:
    """Return the value of a quota, given its setting without the prefix; 0 means no limit."""
    return int(getattr(settings, f"ECHOSCOPE_MAX_{name}"))


def is_reached(name: str, count: int) -> bool:
    """Return True if `count` objects leave no room for another one under that quota."""
    limit = quota(name)
    return 0 < limit <= count
