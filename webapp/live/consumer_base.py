"""Base class of the websocket consumers: access, cursor, heartbeat, close codes."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import time
from collections import Counter
from collections.abc import Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.sessions.backends.db import SessionStore

from webapp.core.broadcast import BroadcastHub
from webapp.core.database import DATABASE_UNAVAILABLE, query
from webapp.core.quotas import is_reached
from webapp.live.access_watch import access_watch
from webapp.live.socket_garbage import socket_garbage
from webapp.teams.models import User
from webapp.teams.user_sessions import belongs_to_user

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

logger = logging.getLogger(__name__)

LOG_IN, NOT_FOUND, TRY_LATER, INTERNAL_ERROR = 4403, 4404, 1013, 1011
PING_INTERVAL = 20.0
CLIENT_TIMEOUT = 65.0
MAX_CURSOR_DIGITS = 18


class LiveConsumer(AsyncWebsocketConsumer):
    """One browser that follows one object of the site by its slug.

    Subclasses define `open`, `visibility`, `follow` and `release`.
    """

    channel_layer_alias = (
        "unused"  # one hub listens for all sockets of the process, which tolerates an unavailable Redis
    )
    max_message_length = 2000

    async def open(self) -> int | None:
        """Find the object and start following it. Returns a close code to refuse the socket, else None."""
        raise NotImplementedError

    async def visibility(self) -> Any:
        """Return what the user may see of the object now; None if nothing."""
        raise NotImplementedError

    def on_visibility(self, visibility: Any) -> None:
        """Handle a change of what the user may see of the object. Must not block."""

    async def follow(self) -> None:
        """Send changes until the socket closes."""
        raise NotImplementedError

    async def release(self) -> None:
        """Stop following; also called when `open` refused."""
        raise NotImplementedError

    async def on_frame(self, frame: dict[str, Any]) -> str:
        """Handle a frame of the client other than a ping. Returns an error message for the client, or ""."""
        return ""

    async def on_invalid_frame(self, message: str) -> None:
        """Handle text that is not a frame; ignored by default."""

    async def renew(self) -> None:
        """Renew resources that the socket uses elsewhere; called every `renew_interval` seconds."""

    def renew_interval(self) -> float:
        return PING_INTERVAL

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one socket until its end, also if the client has left and sending raises an error."""
        self.tasks: list[asyncio.Task[None]] = []
        self.counted = self.opened = False
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._end()

    async def dispatch(self, message: Any) -> None:
        """Handle an event of the socket; channels would close old database connections first, in a thread, each time.

        Only `query` uses the database, and it closes them itself.
        """
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        self.woken = asyncio.Event()
        self.last_received = time.monotonic()
        self.slug: str = self.scope["url_route"]["kwargs"]["slug"]
        self.visitor = get_visitor(self.scope)
        await self.accept()  # a refusal before it would reach browsers without its code
        _sockets[self.visitor] += 1
        socket_garbage.opened()
        self.counted = True
        if self.visitor and is_reached("SOCKETS_PER_VISITOR", _sockets[self.visitor] - 1):
            await self.close(TRY_LATER)
            return
        self.opened = True
        try:
            refusal = await self.open()
        except DATABASE_UNAVAILABLE:
            refusal = TRY_LATER
        if refusal is not None:
            await self.close(refusal)
            return
        self.tasks = [asyncio.create_task(self._guard(work)) for work in (self.follow(), self._heartbeat())]
        access_watch().join(self)

    async def disconnect(self, code: int) -> None:
        await self._end()

    async def _end(self) -> None:
        """Release the socket's resources; may be called again."""
        if self.counted:
            self.counted = False
            _sockets[self.visitor] -= 1
            socket_garbage.closed()
            if not _sockets[self.visitor]:
                del _sockets[self.visitor]
        access_watch().leave(self)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []
        if self.opened:
            self.opened = False
            await self.release()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.last_received = time.monotonic()
        frame, problem = parse_frame(text_data, self.max_message_length)
        if frame is not None and frame.get("type") == "ping":
            await self.send_frame({"type": "pong"})
        elif frame is not None:
            problem = await self.on_frame(frame)
        if problem:
            await self.on_invalid_frame(problem)

    async def send_frame(self, frame: dict[str, Any]) -> None:
        await self.send(json.dumps(frame))

    def cursor(self, name: str, default: int) -> int:
        """Return the number in a query parameter, or `default` if it is missing or not a number."""
        query = self.scope["query_string"].decode("ascii", "replace")
        text = parse_qs(query).get(name, [""])[0]
        is_number = text.isascii() and text.isdigit() and len(text) <= MAX_CURSOR_DIGITS
        return int(text) if is_number else default

    async def wait_until_woken(self, seconds: float | None = None) -> None:
        """Return when `wake` is called, or after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        except TimeoutError:
            pass

    def wake(self) -> None:
        self.woken.set()

    async def _heartbeat(self) -> None:
        """Renew, ping, and close the socket of a silent client."""
        next_ping = time.monotonic() + PING_INTERVAL
        while True:
            await asyncio.sleep(self.renew_interval())
            await self.renew()
            if time.monotonic() < next_ping:
                continue
            next_ping = time.monotonic() + PING_INTERVAL
            if time.monotonic() - self.last_received > CLIENT_TIMEOUT:
                await self.close()
                return
            await self.send_frame({"type": "ping"})

    @property
    def session_key(self) -> str | None:
        """Key of the session that opened the socket."""
        key: str | None = getattr(self.scope.get("session"), "session_key", None)
        return key

    def access_key(self) -> Hashable:
        return type(self), self.slug, self.scope["user"].pk, self.session_key

    async def check_access(self) -> tuple[int | None, Any]:
        """Return (code, None) if sockets like this one have to be closed, else (None, visibility).

        A lost session is answered with TRY_LATER: the browser reconnects with its present session, and is refused
        unless it has one.
        """
        try:
            if not await query(is_still_signed_in, self.scope["user"], self.session_key):
                return TRY_LATER, None
            visibility = await self.visibility()
        except DATABASE_UNAVAILABLE:
            return TRY_LATER, None
        except Exception:
            logger.exception("The access to %s could not be checked", self.slug)
            return INTERNAL_ERROR, None
        return (NOT_FOUND if visibility is None else None), visibility

    def on_access(self, access: Any) -> None:
        code, visibility = access
        if code is None:
            self.on_visibility(visibility)
        else:  # in a task: a lagging client delays only its own close
            access_watch().leave(self)
            self.tasks.append(asyncio.create_task(self._guard(self.close(code))))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of this socket; if it fails, close the socket: the client reconnects with its cursor."""
        try:
            try:
                await work
            except DATABASE_UNAVAILABLE:
                await self.close(TRY_LATER)
        except OSError:
            pass  # the client has left; the server reports it to receive()
        except Exception:
            logger.exception("%s of %s failed", type(self).__name__, self.slug)
            await self.close(INTERNAL_ERROR)


_sockets: Counter[str] = Counter()
"""Open sockets of this process by visitor."""


def get_visitor(scope: Mapping[str, Any]) -> str:
    """Return the account of a socket, else its network address; "" if neither is known, as with a Unix socket.

    IPv6 addresses count by their /64 network, since a visitor has all addresses of one network.
    """
    user, client = scope["user"], scope.get("client")
    if user.is_authenticated:
        return f"user {user.pk}"
    return f"address {_network(client[0])}" if client and client[0] else ""


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


def is_still_signed_in(user: User | AnonymousUser, session_key: str | None) -> bool:
    """Return True if the account is active and still has the session that opened the socket."""
    if not user.is_authenticated:
        return True
    current = User.objects.filter(pk=user.pk, is_active=True).first()
    if current is None or session_key is None:
        return current is not None
    return belongs_to_user(SessionStore(session_key), current)


def parse_frame(text: str | None, max_length: int) -> tuple[dict[str, Any] | None, str]:
    """Return (frame, "") for a client's text, or (None, error message for the client)."""
    if text is None or len(text) > max_length:
        return None, f"A frame must be JSON text of at most {max_length} characters."
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        return None, "This frame is not JSON."
    if not isinstance(frame, dict):
        return None, "A frame must be a JSON object with a type."
    return frame, ""


def poll_interval(hub: BroadcastHub, with_redis: float, without_redis: float) -> float:
    """Return the seconds to the next poll: longer while Redis answers, because wake-up messages replace polls."""
    return with_redis if hub.redis_answers else without_redis
