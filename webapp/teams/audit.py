"""Audit log: who did what, when, from where, to which object. Actions call `record` in their own transaction.

Entries are only added, and deleted by age. Person, address and means of an entry come from the current request; without
a request, the site or a command of its operator caused the entry.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webapp.teams.browser_names import client_name
from webapp.teams.client_address import client_address
from webapp.teams.models import ApiToken, AuditAction, AuditEntry, Team, User

View = Callable[[HttpRequest], HttpResponse]

_request: ContextVar[HttpRequest | None] = ContextVar("audited_request", default=None)
TOKEN = "_api_token"
"""Attribute of a request that an API token authenticated."""


def audited_requests(get_response: View) -> View:
    """Middleware that provides the current request to `record`."""

    def answer(request: HttpRequest) -> HttpResponse:
        previous = _request.set(request)
        try:
            return get_response(request)
        finally:
            _request.reset(previous)

    return answer


def note_token(request: HttpRequest, token: ApiToken) -> None:
    """Remember that a token authenticated the request."""
    setattr(request, TOKEN, token)


def record(
    action: AuditAction,
    subject: str = "",
    *,
    team: Team | None = None,
    path: str = "",
    user: User | None = None,
    **details: Any,
) -> None:
    """Add an entry.

    Args:
        subject: describes the object for users, such as “the token “CI””.
        team: team whose admins may read the entry; None: only staff may.
        path: page of the object.
        user: acting user, if it is not the user of the request.
        details: JSON values, such as the role before and after.
    """
    request = _request.get()
    token: ApiToken | None = getattr(request, TOKEN, None)
    who = user or _find_user(request, token)
    AuditEntry.objects.create(
        action=action,
        user=who,
        username="" if who is None else who.get_username(),
        team=team,
        subject=subject[: AuditEntry._meta.get_field("subject").max_length],
        path=path,
        address=None if request is None else client_address(request),
        means=_means(request, token),
        details=details,
    )


def _find_user(request: HttpRequest | None, token: ApiToken | None) -> User | None:
    if token is not None:
        return token.user
    user = getattr(request, "user", None)
    return user if isinstance(user, User) else None


def _means(request: HttpRequest | None, token: ApiToken | None) -> str:
    if token is not None:
        return f"token {token}"
    return "" if request is None else client_name(request.headers.get("User-Agent", ""))


def do_forget_entries(now: datetime) -> int:
    """Delete entries older than ECHOSCOPE_AUDIT_DAYS, if it is set. Returns their number."""
    days: int = settings.ECHOSCOPE_AUDIT_DAYS
    return AuditEntry.objects.filter(at__lt=now - timedelta(days=days)).delete()[0] if days else 0
