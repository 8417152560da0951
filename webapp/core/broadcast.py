"""Channel-layer subscriptions of one event loop, and monitoring of Redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import redis.asyncio
import redis.exceptions
from channels.layers import get_channel_layer
from django.conf import settings

logger = logging.getLogger(__name__)

REDIS_UNAVAILABLE = (redis.exceptions.RedisError, OSError, TimeoutError)
Hub = TypeVar("Hub")


class BroadcastHub:
    """One channel that joins the groups of everything watched in this event loop and receives their messages.

    Only `_maintain` subscribes. Calls to Redis are shielded: its client may swallow a cancellation, and a task that
    awaits it would never end.
    """

    health_interval = 2.0
    """Seconds between two pings of Redis while anything is watched."""
    without_redis = "live pages poll the database"
    """Fallback while Redis is away, for the log."""

    def __init__(self) -> None:
        self.redis = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2)
        self.redis_answers = True
        self._subscribed: set[str] = set()
        self._channel = ""
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def group(self, slug: str) -> str:
        """Return the channel-layer group of a watched object."""
        raise NotImplementedError

    def watched(self) -> Collection[str]:
        """Return slugs of the currently watched objects."""
        raise NotImplementedError

    def wake(self, slug: str) -> None:
        """Make the watchers of an object poll, if there are any."""
        raise NotImplementedError

    def on_message(self, message: dict[str, Any]) -> None:
        """Handle a message to one of the groups."""
        raise NotImplementedError

    def start(self) -> None:
        """Start listening, unless already started."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._maintain())]

    def changed(self) -> None:
        """Update the subscriptions after the set of watched objects has changed."""
        self._changed.set()

    async def _maintain(self) -> None:
        """Update the subscriptions when watched objects change, and check Redis."""
        while True:
            self._changed.clear()
            try:
                await asyncio.shield(self.redis.ping())
                await self._subscribe()
                answers = True
            except REDIS_UNAVAILABLE as error:
                answers = False
                if self.redis_answers:
                    logger.warning("Redis does not answer (%s): %s.", str(error) or "timeout", self.without_redis)
            if answers != self.redis_answers:
                self.redis_answers = answers
                for slug in list(self.watched()):
                    self.wake(slug)
            try:
                async with asyncio.timeout(self.health_interval if self.watched() else None):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _subscribe(self) -> None:
        layer = get_channel_layer()
        assert layer is not None
        if not self._channel:
            self._channel = await asyncio.shield(layer.new_channel())
            self._tasks.append(asyncio.create_task(self._receive(layer, self._channel)))
        watched = set(self.watched())
        for slug in self._subscribed - watched:
            await asyncio.shield(layer.group_discard(self.group(slug), self._channel))
            self._subscribed.discard(slug)
        for slug in watched - self._subscribed:
            await asyncio.shield(layer.group_add(self.group(slug), self._channel))
            self._subscribed.add(slug)
            self.wake(slug)  # messages may have been sent before the subscription

    async def _receive(self, layer: Any, channel: str) -> None:
        """Dispatch messages. The layer resubscribes by itself when Redis comes back."""
        while True:
            self.on_message(await layer.receive(channel))


def hub_of_running_loop(hubs: dict[asyncio.AbstractEventLoop, Hub], make: Callable[[], Hub]) -> Hub:
    """Return the hub of the running event loop, created on first use; hubs of closed loops are dropped."""
    loop = asyncio.get_running_loop()
    for closed in [other for other in hubs if other.is_closed()]:
        del hubs[closed]
    if loop not in hubs:
        hubs[loop] = make()
    return hubs[loop]
