"""What every page knows about mentions: how many are unread, asked only where a page shows it."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from webapp.annotations.panel import unread


def unread_mentions(request: HttpRequest) -> dict[str, object]:
    """Context processor: `unread_mentions`, one query when the navigation shows it."""
    return {"unread_mentions": SimpleLazyObject(lambda: unread(request.user))}
