"""Limits of request bodies, as ASGI middleware: Django stores a complete body before any view can refuse it.

Only journals are large, and only with a login or an API token.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY

from webapp.core.database import DATABASE_UNAVAILABLE, query
from webapp.teams.api_tokens import find_token

SMALL_BODY = 3 * 1024 * 1024
"""Maximum bytes of any other request: more than Django accepts for a form."""
FORM_OVERHEAD = 1024 * 1024
"""Bytes of a multipart form around a journal."""
BODY_TIMEOUT = 30.0
"""Seconds without a byte of a body after which the request is given up."""
WHOLE_TIMEOUT, SLOWEST = 60.0, 20_000
"""Seconds of waiting for a whole body, plus one for each SLOWEST bytes that have arrived."""
JOURNAL_PATHS = re.compile(r"/api/runs/(import|[^/]+/journal)")

Receive = Callable[[], Awaitable[Any]]
Application = Callable[[Any, Any, Any], Awaitable[Any]]


class BodyRefused(Exception):
    """The body is too large or too slow, and no response was started yet."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def limit_bodies(application: Application) -> Application:
    """Limit size and time of each request's body for the application; beyond them it answers 413, 401 or 408."""

    async def answer(scope: Any, receive: Receive, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        started = False

        async def sending(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        body = _Body(scope, receive)
        try:
            await body.check_declared_size()
            await application(scope, body.receive, sending)
        except BodyRefused as refusal:
            if started:
                raise  # the server closes the connection
            await _refuse(scope, send, refusal)

    return answer


class _Body:
    """Counts the body of one request while the application receives it."""

    def __init__(self, scope: Any, receive: Receive) -> None:
        self._scope, self._receive = scope, receive
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._size, self._complete = 0, False
        self._waited = 0.0
        self._limit = SMALL_BODY
        self._may_be_large = bool(JOURNAL_PATHS.fullmatch(scope["path"])) and scope["method"] in ("POST", "PUT")

    async def check_declared_size(self) -> None:
        """Raise BodyRefused if the request announces a body that is too large."""
        declared = self._headers.get(b"content-length", b"")
        if declared.isdigit():
            await self._check(int(declared[:20]))

    async def receive(self) -> Any:
        """Return the server's next message, within the limits. Raises BodyRefused."""
        if self._complete:
            return await self._receive()
        left, began = WHOLE_TIMEOUT + self._size / SLOWEST - self._waited, time.monotonic()
        try:
            async with asyncio.timeout(min(BODY_TIMEOUT, left)):
                message = await self._receive()
        except TimeoutError:
            if left < BODY_TIMEOUT:
                words = (
                    f"The request's body arrived too slowly: {self._size:,} bytes in "
                    f"{WHOLE_TIMEOUT + self._size / SLOWEST:.0f} seconds. Send it over a faster connection, or in "
                    "pieces."
                )
            else:
                words = f"No byte of the request's body arrived for {BODY_TIMEOUT:.0f} seconds. Send it again."
            raise BodyRefused(408, "too_slow", words) from None
        self._waited += time.monotonic() - began
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            await self._check(self._size)
        else:
            self._complete = True
        return message

    async def _check(self, size: int) -> None:
        if size <= self._limit:
            return
        if not self._may_be_large:
            raise BodyRefused(413, "too_large", f"A request to this address has at most {SMALL_BODY:,} bytes.")
        if self._limit == SMALL_BODY:
            if not await _is_known(self._headers):
                words = (
                    "A journal of this size needs a login or a valid API token: send “Authorization: Bearer <token>”."
                )
                raise BodyRefused(401, "not_authenticated", words)
            self._limit = int(settings.ECHOSCOPE_UPLOAD_MB * 2**20) + FORM_OVERHEAD
        if size > self._limit:
            words = f"A request may contain at most {self._limit:,} bytes. Send the rest in further pieces."
            raise BodyRefused(413, "too_large", words)


async def _is_known(headers: dict[bytes, bytes]) -> bool:
    """Return True if the request has a usable API token or the session of a logged-in user."""
    try:
        return await query(_has_credential, headers)
    except DATABASE_UNAVAILABLE:
        return True  # the view reports it


def _has_credential(headers: dict[bytes, bytes]) -> bool:
    authorization = headers.get(b"authorization", b"").decode("latin-1")
    if authorization.startswith("Bearer "):
        return find_token(authorization.removeprefix("Bearer ").strip()) is not None
    try:
        cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return False
    session = cookies.get(settings.SESSION_COOKIE_NAME)
    if session is None or "\0" in session.value:
        return False
    store = import_module(settings.SESSION_ENGINE).SessionStore
    return bool(store(session.value).get(SESSION_KEY))


async def _refuse(scope: Any, send: Any, refusal: BodyRefused) -> None:
    """Answer without reading the rest, and close the connection."""
    if scope["path"].startswith("/api/"):
        kind = b"application/json"
        text = json.dumps({"error": {"code": refusal.code, "message": refusal.message}}, ensure_ascii=False)
    else:
        kind, text = b"text/plain; charset=utf-8", refusal.message
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(text.encode())).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
