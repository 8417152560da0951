"""Sessions of a user, one for each logged-in browser: their list, their end, and their last use.

allauth stores address, browser and times of a session in `UserSession`; Django's `Session` decides whether it is valid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allauth.usersessions.models import UserSession
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare

from webapp.core.database import DATABASE_UNAVAILABLE
from webapp.teams.audit import record
from webapp.teams.browser_names import client_name
from webapp.teams.client_address import NO_ADDRESS
from webapp.teams.models import AuditAction, User

RECORD_EVERY = 300.0
"""Seconds between two records of a session's use by one process: a write for each page would be too many."""
MAX_RECORDED = 10_000

View = Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True)
class ShownSession:
    """A valid session, for the account page."""

    pk: int
    client: str
    address: str
    created_at: datetime
    last_seen_at: datetime
    current: bool


def belongs_to_user(data: Mapping[str, Any], user: User) -> bool:
    """Return True if a session's data belong to the user, whose password has not changed since."""
    same_user = data.get(SESSION_KEY) == str(user.pk)
    return same_user and constant_time_compare(data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())


def list_sessions(user: User, current_key: str | None, now: datetime) -> list[ShownSession]:
    """Return the valid sessions of the user: the current one, then the others by last use. Two queries."""
    rows = {row.session_key: row for row in UserSession.objects.filter(user=user).order_by("-last_seen_at", "-pk")}
    stored = Session.objects.filter(pk__in=rows, expire_date__gt=now)
    valid = {session.pk for session in stored if belongs_to_user(session.get_decoded(), user)}
    shown = [
        ShownSession(
            pk=row.pk,
            client=client_name(row.user_agent),
            address="" if row.ip == NO_ADDRESS else row.ip,
            created_at=row.created_at,
            last_seen_at=row.last_seen_at,
            current=key == current_key,
        )
        for key, row in rows.items()
        if key in valid
    ]
    return sorted(shown, key=lambda session: not session.current)


def do_end_session(session: UserSession) -> None:
    """Log a browser out. Its open pages stop updating within ten seconds."""
    _end([session.session_key], client_name(session.user_agent))


def do_end_other_sessions(user: User, current_key: str | None) -> int:
    """Log out all browsers of the user except the current one, if any. Returns their number."""
    others = UserSession.objects.filter(user=user)
    if current_key is not None:
        others = others.exclude(session_key=current_key)
    return _end(list(others.values_list("session_key", flat=True)), f"all others of {user.username}")


@transaction.atomic
def _end(keys: list[str], subject: str) -> int:
    """Delete the sessions. Returns the number of sessions that existed."""
    record(AuditAction.SESSIONS_ENDED, subject)
    ended, _ = Session.objects.filter(pk__in=keys).delete()
    UserSession.objects.filter(session_key__in=keys).delete()
    return ended


def do_forget_sessions(now: datetime) -> None:
    """Delete expired sessions, and records of sessions that no longer exist."""
    Session.objects.filter(expire_date__lt=now).delete()
    UserSession.objects.exclude(session_key__in=Session.objects.values("pk")).delete()


_recorded: dict[str, float] = {}
"""Time of this process's clock until which a session's use is not recorded again, by its key."""


def record_session_use(get_response: View) -> View:
    """Middleware that records address, browser and time of a session's use after the response, every RECORD_EVERY."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        key = request.session.session_key
        if key and request.session.accessed and _recorded.get(key, 0.0) <= time.monotonic():
            _record(request, key)
        return response

    return answer


def _record(request: HttpRequest, key: str) -> None:
    try:
        if not request.user.is_authenticated:
            return
        UserSession.objects.create_from_request(request)
    except DATABASE_UNAVAILABLE:  # the response is complete without it
        return
    if len(_recorded) >= MAX_RECORDED:
        _recorded.clear()
    _recorded[key] = time.monotonic() + RECORD_EVERY
