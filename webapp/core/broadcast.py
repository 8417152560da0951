"""What reaches the sockets of one event loop over the channel layer, and whether Redis answers at present.

Runs and annotations have a switchboard each; whom a message wakes is theirs to say.
"""

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

REDIS_GONE = (redis.exceptions.RedisError, OSError, TimeoutError)
Board = TypeVar("Board", bound="BroadcastHub")


class BroadcastHub:
    """One channel that joins the groups of everything watched here, and is told of changes in them.

    Only `_care` subscribes. What talks to Redis is shielded: its client may swallow a cancellation, and whoever waits
    for it would never end.
    """

    pulse = 2.0
    """Seconds between two looks at Redis while somebody watches."""
    without_redis = "live pages poll the database"
    """What happens meanwhile, for the log."""

    def __init__(self) -> None:
        self.redis = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2)
        self.redis_answers = True
        self._subscribed: set[str] = set()
        self._channel = ""
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def group(self, slug: str) -> str:
        """The channel-layer group of what is watched."""
        raise NotImplementedError

    def watched(self) -> Collection[str]:
        """The slugs of what is watched now."""
        raise NotImplementedError

    def wake(self, slug: str) -> None:
        """Let whoever watches it look; nobody may."""
        raise NotImplementedError

    def hear(self, message: dict[str, Any]) -> None:
        """A message of one of the groups."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin to listen, if that has not happened yet."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._care())]

    def changed(self) -> None:
        """Other things are watched than before."""
        self._changed.set()

    async def _care(self) -> None:
        """Keep the subscriptions in step with what is watched, and an eye on Redis."""
        while True:
            self._changed.clear()
            try:
                await asyncio.shield(self.redis.ping())
                await self._subscribe()
                answers = True
            except REDIS_GONE as error:
                answers = False
                if self.redis_answers:
                    logger.warning("Redis does not answer (%s): %s.", error, self.without_redis)
            if answers != self.redis_answers:
                self.redis_answers = answers
                for slug in list(self.watched()):
                    self.wake(slug)
            try:
                async with asyncio.timeout(self.pulse if self.watched() else None):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _subscribe(self) -> None:
        layer = get_channel_layer()
        assert layer is not None
        if not self._channel:
            self._channel = await asyncio.shield(layer.new_channel())
            self._tasks.append(asyncio.create_task(self._listen(layer, self._channel)))
        wanted = set(self.watched())
        for slug in self._subscribed - wanted:
            await asyncio.shield(layer.group_discard(self.group(slug), self._channel))
            self._subscribed.discard(slug)
        for slug in wanted - self._subscribed:
            await asyncio.shield(layer.group_add(self.group(slug), self._channel))
            self._subscribed.add(slug)
            self.wake(slug)  # for what was written before we listened

    async def _listen(self, layer: Any, channel: str) -> None:
        """Pass on what comes. The layer subscribes again by itself when Redis comes back."""
        while True:
            self.hear(await layer.receive(channel))


def of_this_loop(boards: dict[asyncio.AbstractEventLoop, Board], make: Callable[[], Board]) -> Board:
    """The running event loop's own; those of closed loops are forgotten."""
    loop = asyncio.get_running_loop()
    for closed in [other for other in boards if other.is_closed()]:
        del boards[closed]
    if loop not in boards:
        boards[loop] = make()
    return boards[loop]
