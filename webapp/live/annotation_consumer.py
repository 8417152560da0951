"""The websocket of a trajectory's annotations, `/ws/t/<slug>/?after=<version>`: says that they changed, nothing more.

The page then fetches them again. What changed is counted in the database, so a lost wake-up call costs seconds: every
socket looks at the count now and then, more often while Redis is away. Frames of the server:

    changed version      the annotations are not those of the version the page knows
    ping, pong           heartbeat

Closed with 4403: log in first; 4404: no such trajectory, or not in your teams; 1013: the database is away, come back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import Http404

from webapp.annotations.models import AnnotationVersion
from webapp.core.broadcast import BroadcastHub, of_this_loop
from webapp.core.publisher import annotations_group
from webapp.live.frame_reader import DATABASE_GONE

logger = logging.getLogger(__name__)

LOG_IN, NOT_FOUND, TRY_LATER = 4403, 4404, 1013
PING_EVERY = 20.0
SILENCE = 65.0
SAFETY_POLL = 20.0
POLL_WITHOUT_REDIS = 3.0
MAX_MESSAGE_LENGTH = 200


@database_sync_to_async
def member_trajectory(user: Any, slug: str) -> int | None:
    """The trajectory's primary key if the user belongs to its team and may see it."""
    from webapp.annotations.access import get_member_trajectory

    try:
        return get_member_trajectory(user, slug)[0].pk
    except Http404:
        return None


@database_sync_to_async
def version_of(trajectory_id: int) -> int:
    """How often the annotations changed so far."""
    return AnnotationVersion.objects.filter(trajectory_id=trajectory_id).values_list("version", flat=True).first() or 0


class AnnotationHub(BroadcastHub):
    """The sockets of one event loop."""

    pulse = 5.0
    without_redis = "pages look for annotations themselves"

    def __init__(self) -> None:
        super().__init__()
        self._sockets: dict[str, set[AnnotationsConsumer]] = {}

    def join(self, socket: AnnotationsConsumer) -> None:
        self.start()
        self._sockets.setdefault(socket.slug, set()).add(socket)
        self.changed()

    def leave(self, socket: AnnotationsConsumer) -> None:
        others = self._sockets.get(socket.slug, set())
        others.discard(socket)
        if not others:
            self._sockets.pop(socket.slug, None)
        self.changed()

    def group(self, slug: str) -> str:
        return annotations_group(slug)

    def watched(self) -> Collection[str]:
        return self._sockets.keys()

    def wake(self, slug: str) -> None:
        for socket in self._sockets.get(slug, ()):
            socket.woken.set()

    def hear(self, message: dict[str, Any]) -> None:
        self.wake(message.get("slug", ""))


_hubs: dict[asyncio.AbstractEventLoop, AnnotationHub] = {}


def hub() -> AnnotationHub:
    """The hub of the running event loop."""
    return of_this_loop(_hubs, AnnotationHub)


class AnnotationsConsumer(AsyncWebsocketConsumer):
    """One browser that shows a trajectory."""

    channel_layer_alias = "unused"  # the hub listens for all sockets of the process, so that Redis may be away

    async def connect(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.woken = asyncio.Event()
        self.heard = time.monotonic()
        self.slug: str = self.scope["url_route"]["kwargs"]["slug"]
        await self.accept()  # a refusal before it would reach browsers without its code
        if not self.scope["user"].is_authenticated:
            await self.close(LOG_IN)
            return
        try:
            trajectory = await member_trajectory(self.scope["user"], self.slug)
        except DATABASE_GONE:
            await self.close(TRY_LATER)
            return
        if trajectory is None:
            await self.close(NOT_FOUND)
            return
        known = parse_qs(self.scope["query_string"].decode("ascii", "replace")).get("after", [""])[0]
        self.version = int(known) if known.isascii() and known.isdigit() and len(known) < 19 else -1
        hub().join(self)
        self.tasks = [
            asyncio.create_task(self._guard(self._follow(trajectory))),
            asyncio.create_task(self._guard(self._beat())),
        ]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        hub().leave(self)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.heard = time.monotonic()
        if _is_ping(text_data):
            await self.send('{"type": "pong"}')

    async def _follow(self, trajectory: int) -> None:
        while True:
            self.woken.clear()
            version = await version_of(trajectory)
            if version != self.version:
                self.version = version
                await self.send(json.dumps({"type": "changed", "version": version}))
            try:
                async with asyncio.timeout(SAFETY_POLL if hub().redis_answers else POLL_WITHOUT_REDIS):
                    await self.woken.wait()
            except TimeoutError:
                pass

    async def _beat(self) -> None:
        """Heartbeat, and whether the user may still look."""
        while True:
            await asyncio.sleep(PING_EVERY)
            if time.monotonic() - self.heard > SILENCE:
                await self.close()
                return
            await self.send('{"type": "ping"}')
            if await member_trajectory(self.scope["user"], self.slug) is None:
                await self.close(NOT_FOUND)
                return

    async def _guard(self, work: Any) -> None:
        """Run a task of this socket; if it breaks, the client comes back and compares versions."""
        try:
            await work
        except DATABASE_GONE:
            await self.close(TRY_LATER)
        except Exception:
            logger.exception("The connection about the annotations of %s broke", self.slug)
            await self.close(1011)


def _is_ping(text: str | None) -> bool:
    """Whatever else a client says means nothing here."""
    if text is None or len(text) > MAX_MESSAGE_LENGTH:
        return False
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(frame, dict) and frame.get("type") == "ping"
