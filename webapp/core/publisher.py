"""Wake-up calls and thoughts, sent from synchronous code. Losing one is harmless: readers poll, too."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
from concurrent.futures import Future
from typing import Any

import redis.exceptions
from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)

RUN_CHANGED = "run.poke"
ANNOTATIONS_CHANGED = "annotations.poke"
TOKENS = "run.tokens"
MAX_PENDING = 64
QUIET = 30.0
SHUTDOWN_TIMEOUT = 1.0


def run_group(slug: str) -> str:
    """The channel-layer group of everybody who watches the run."""
    return f"run.{slug}"


def annotations_group(slug: str) -> str:
    """The channel-layer group of the pages that show the trajectory's annotations."""
    return f"annotations.{slug}"


class Publisher:
    """One event loop in a thread of its own with one connection, so that no caller ever waits for Redis."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()
        self._pending = 0
        self._complained = -QUIET

    def poke(self, slug: str, seq: int) -> None:
        """Tell readers that the run's row or its frames changed."""
        self.send(run_group(slug), {"type": RUN_CHANGED, "slug": slug, "seq": seq})

    def tokens(self, slug: str, trajectory: str, turn: int, text: str) -> None:
        """A thought as far as it is written."""
        message = {"type": TOKENS, "slug": slug, "trajectory": trajectory, "turn": turn, "text": text}
        self.send(run_group(slug), message)

    def flush(self, seconds: float = 2.0) -> None:
        """Wait until what was sent so far is out, or for `seconds`."""
        deadline = time.monotonic() + seconds
        while self._pending and time.monotonic() < deadline:
            time.sleep(0.005)

    def close(self) -> None:
        """Send what waits (for a second at most) and end the thread. What is sent afterwards starts another."""
        self.flush(SHUTDOWN_TIMEOUT)
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(SHUTDOWN_TIMEOUT)

    def send(self, group: str, message: dict[str, Any]) -> None:
        """A message for everybody in that group of the channel layer. Dropped when too many wait already."""
        if self._pending >= MAX_PENDING:
            return
        with self._lock:
            self._pending += 1
            loop = self._loop = self._loop or self._begin()
            sending = asyncio.run_coroutine_threadsafe(self._publish(group, message), loop)
        sending.add_done_callback(self._sent)

    def _begin(self) -> asyncio.AbstractEventLoop:
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

        def live() -> None:
            with runner:
                runner.get_loop().run_forever()

        self._thread = threading.Thread(target=live, name="live-bus", daemon=True)
        loop = runner.get_loop()
        self._thread.start()
        return loop

    async def _publish(self, group: str, message: dict[str, Any]) -> None:
        layer = get_channel_layer()
        assert layer is not None
        async with asyncio.timeout(5):
            await layer.group_send(group, message)

    def _sent(self, future: Future[None]) -> None:
        with self._lock:
            self._pending -= 1
        if future.cancelled():
            return
        error = future.exception()
        if error is None or time.monotonic() - self._complained < QUIET:
            return
        self._complained = time.monotonic()
        if isinstance(error, (redis.exceptions.RedisError, OSError)):
            logger.warning("Redis does not answer (%s): live pages poll the database until it is back.", error)
        else:
            logger.error("A wake-up call could not be sent.", exc_info=error)


_buses: dict[int, Publisher] = {}


def publisher() -> Publisher:
    """This process's bus. A forked worker gets its own: threads do not survive a fork."""
    return _buses.setdefault(os.getpid(), Publisher())


def notify_annotations(slug: str) -> None:
    """Have open pages of the trajectory fetch its annotations again. Never waits; without Redis they poll."""
    publisher().send(annotations_group(slug), {"type": ANNOTATIONS_CHANGED, "slug": slug})


@atexit.register
def _close_at_exit() -> None:
    """A command that ends at once still wakes the readers; the interpreter aborts on a thread amidst a C++ module."""
    mine = _buses.get(os.getpid())
    if mine is not None:
        mine.close()
