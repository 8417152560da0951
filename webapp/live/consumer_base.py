"""Base class of the websocket consumers: access, cursor, heartbeat, close codes."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Coroutine
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from webapp.core.broadcast import BroadcastHub
from webapp.core.database import DATABASE_UNAVAILABLE

logger = logging.getLogger(__name__)

LOG_IN, NOT_FOUND, TRY_LATER, INTERNAL_ERROR = 4403, 4404, 1013, 1011
PING_INTERVAL = 20.0
CLIENT_TIMEOUT = 65.0
MAX_CURSOR_DIGITS = 18


class LiveConsumer(AsyncWebsocketConsumer):
    """One browser that follows one object of the site by its slug.

    Subclasses define `open`, `is_visible`, `follow` and `release`.
    """

    channel_layer_alias = (
        "unused"  # one hub listens for all sockets of the process, which tolerates an unavailable Redis
    )
    max_message_length = 2000

    async def open(self) -> int | None:
        """Find the object and start following it. Returns a close code to refuse the socket, else None."""
        raise NotImplementedError

    async def is_visible(self) -> bool:
        """Whether the user may still see the object."""
        raise NotImplementedError

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
        """Renew resources that the socket holds elsewhere; called every `renew_interval` seconds."""

    def renew_interval(self) -> float:
        return PING_INTERVAL

    async def connect(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.woken = asyncio.Event()
        self.last_received = time.monotonic()
        self.slug: str = self.scope["url_route"]["kwargs"]["slug"]
        await self.accept()  # a refusal before it would reach browsers without its code
        try:
            refusal = await self.open()
        except DATABASE_UNAVAILABLE:
            refusal = TRY_LATER
        if refusal is not None:
            await self.close(refusal)
            return
        self.tasks = [asyncio.create_task(self._guard(work)) for work in (self.follow(), self._heartbeat())]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
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
        """The number of a query parameter; `default` where it is missing or no number."""
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
        """Renew, ping, and close the socket of a silent client or of a user who lost access."""
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
            if not await self.is_visible():
                await self.close(NOT_FOUND)
                return

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of this socket; if it fails, close the socket: the client reconnects with its cursor."""
        try:
            await work
        except DATABASE_UNAVAILABLE:
            await self.close(TRY_LATER)
        except Exception:
            logger.exception("%s of %s failed", type(self).__name__, self.slug)
            await self.close(INTERNAL_ERROR)


def parse_frame(text: str | None, max_length: int) -> tuple[dict[str, Any] | None, str]:
    """(frame, "") of a client's text, or (None, error message for the client)."""
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
    """Seconds to the next poll of the database; longer while Redis answers, because wake-up messages replace polls."""
    return with_redis if hub.redis_answers else without_redis
