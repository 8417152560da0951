"""Websocket of a trajectory's annotations, `/ws/t/<slug>/?after=<version>`: reports that they changed.

The page then fetches them again. Changes are counted in the database, so a lost wake-up message costs seconds: every
socket polls the count, more often while Redis is away. Frames of the server:

    changed version      the annotations differ from the version that the page has
    ping, pong           heartbeat

Close codes: 4403, log in first; 4404, no such trajectory, or not in the user's teams; 1013, database unavailable,
retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from django.http import Http404

from webapp.annotations.access import get_member_trajectory
from webapp.annotations.models import AnnotationVersion
from webapp.core.broadcast import BroadcastHub, hub_of_running_loop
from webapp.core.database import query
from webapp.core.publisher import annotations_group
from webapp.live.consumer_base import LOG_IN, NOT_FOUND, LiveConsumer, poll_interval

POLL_INTERVAL = 20.0
POLL_WITHOUT_REDIS = 3.0


def member_trajectory(user: Any, slug: str) -> int | None:
    """Return the trajectory's primary key if the user belongs to its team and may see it."""
    try:
        return get_member_trajectory(user, slug)[0].pk
    except Http404:
        return None


def get_version(trajectory_id: int) -> int:
    """Return the number of changes of the annotations so far."""
    return AnnotationVersion.objects.filter(trajectory_id=trajectory_id).values_list("version", flat=True).first() or 0


class AnnotationHub(BroadcastHub):
    """The annotation sockets of one event loop."""

    health_interval = 5.0
    without_redis = "pages poll for annotations"

    def __init__(self) -> None:
        super().__init__()
        self._sockets: dict[str, set[LiveConsumer]] = {}

    def join(self, socket: LiveConsumer) -> None:
        self.start()
        self._sockets.setdefault(socket.slug, set()).add(socket)
        self.changed()

    def leave(self, socket: LiveConsumer) -> None:
        sockets = self._sockets.get(socket.slug, set())
        sockets.discard(socket)
        if not sockets:
            self._sockets.pop(socket.slug, None)
        self.changed()

    def group(self, slug: str) -> str:
        return annotations_group(slug)

    def watched(self) -> Collection[str]:
        return self._sockets.keys()

    def wake(self, slug: str) -> None:
        for socket in self._sockets.get(slug, ()):
            socket.wake()

    def on_message(self, message: dict[str, Any]) -> None:
        self.wake(message.get("slug", ""))


_hubs: dict[asyncio.AbstractEventLoop, AnnotationHub] = {}


def hub() -> AnnotationHub:
    """Return the hub of the running event loop."""
    return hub_of_running_loop(_hubs, AnnotationHub)


class AnnotationsConsumer(LiveConsumer):
    """One browser that shows a trajectory."""

    max_message_length = 200

    async def open(self) -> int | None:
        if not self.scope["user"].is_authenticated:
            return LOG_IN
        trajectory = await query(member_trajectory, self.scope["user"], self.slug)
        if trajectory is None:
            return NOT_FOUND
        self.trajectory = trajectory
        self.version = self.cursor("after", default=-1)
        hub().join(self)
        return None

    async def visibility(self) -> int | None:
        return await query(member_trajectory, self.scope["user"], self.slug)

    async def release(self) -> None:
        hub().leave(self)

    async def follow(self) -> None:
        while True:
            self.woken.clear()
            version = await query(get_version, self.trajectory)
            if version != self.version:
                self.version = version
                await self.send_frame({"type": "changed", "version": version})
            await self.wait_until_woken(poll_interval(hub(), POLL_INTERVAL, POLL_WITHOUT_REDIS))
