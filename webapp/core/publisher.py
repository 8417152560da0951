"""Sends wake-up messages and partial responses from synchronous code. Messages may be lost: readers also poll."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any

import kombu.exceptions
import redis.exceptions
from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)

_REDIS_UNAVAILABLE = (redis.exceptions.RedisError, kombu.exceptions.OperationalError, OSError)

RUN_CHANGED = "run.poke"
ANNOTATIONS_CHANGED = "annotations.poke"
INBOX_CHANGED = "inbox.poke"
TOKENS = "run.tokens"
PROGRESS = "run.progress"
MAX_PENDING = 64
LOG_INTERVAL = 30.0
SEND_TIMEOUT = 5.0
SHUTDOWN_TIMEOUT = 1.0


def run_group(slug: str) -> str:
    """Return the channel-layer group of the watchers of a run."""
    return f"run.{slug}"


def annotations_group(slug: str) -> str:
    """Return the channel-layer group of the pages that show a trajectory's annotations."""
    return f"annotations.{slug}"


def inbox_group(user_id: str) -> str:
    """Return the channel-layer group of a user's open pages."""
    return f"inbox.{user_id}"


class Publisher:
    """An event loop in a separate thread with one connection, so that callers never wait for Redis."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()
        self._pending = 0
        self._logged_at = -LOG_INTERVAL

    def notify(self, slug: str, seq: int) -> None:
        """Wake the readers of a run, after its row or its frames changed."""
        self.send(run_group(slug), {"type": RUN_CHANGED, "slug": slug, "seq": seq})

    def tokens(self, slug: str, trajectory: str, turn: int, text: str) -> None:
        """Send a partial response to the watchers of a run."""
        message = {"type": TOKENS, "slug": slug, "trajectory": trajectory, "turn": turn, "text": text}
        self.send(run_group(slug), message)

    def progress(self, slug: str, phase: dict[str, Any]) -> None:
        """Send the progress of an update, between two events of the journal, to the watchers of a run."""
        self.send(run_group(slug), {"type": PROGRESS, "slug": slug, "phase": phase})

    def flush(self, seconds: float = 2.0) -> None:
        """Wait until all pending messages are sent, or for `seconds`."""
        deadline = time.monotonic() + seconds
        while self._pending and time.monotonic() < deadline:
            time.sleep(0.005)

    def close(self) -> None:
        """Send pending messages (for a second at most) and end the thread. A later `send` starts another."""
        self.flush(SHUTDOWN_TIMEOUT)
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(SHUTDOWN_TIMEOUT)

    def in_background(self, send: Callable[[], object]) -> None:
        """Call a function that sends through Redis in a thread; dropped when too many are pending."""
        self._submit(lambda: self._call(send))

    def send(self, group: str, message: dict[str, Any]) -> None:
        """Send a message to a channel-layer group. Dropped when too many are pending."""
        self._submit(lambda: self._publish(group, message))

    def _submit(self, sending: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._pending >= MAX_PENDING:
            return
        with self._lock:
            self._pending += 1
            loop = self._loop = self._loop or self._start_loop()
            future = asyncio.run_coroutine_threadsafe(sending(), loop)
        future.add_done_callback(self._on_sent)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

        def run() -> None:
            with runner:
                runner.get_loop().run_forever()

        self._thread = threading.Thread(target=run, name="publisher", daemon=True)
        loop = runner.get_loop()
        self._thread.start()
        return loop

    async def _publish(self, group: str, message: dict[str, Any]) -> None:
        layer = get_channel_layer()
        assert layer is not None
        async with asyncio.timeout(SEND_TIMEOUT):
            await layer.group_send(group, message)

    async def _call(self, send: Callable[[], object]) -> None:
        async with asyncio.timeout(SEND_TIMEOUT):
            await asyncio.to_thread(send)

    def _on_sent(self, future: Future[None]) -> None:
        try:
            self._report(future)
        finally:  # so that a flush covers the report
            with self._lock:
                self._pending -= 1

    def _report(self, future: Future[None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None or time.monotonic() - self._logged_at < LOG_INTERVAL:
            return
        self._logged_at = time.monotonic()
        if isinstance(error, _REDIS_UNAVAILABLE):
            logger.warning("Redis does not answer (%s): pages and workers poll the database.", str(error) or "timeout")
        else:
            logger.error("A wake-up message could not be sent.", exc_info=error)


_publishers: dict[int, Publisher] = {}


def publisher() -> Publisher:
    """Return the publisher of this process.

    A forked worker creates another one, since threads do not survive a fork.
    """
    return _publishers.setdefault(os.getpid(), Publisher())


def notify_annotations(slug: str) -> None:
    """Make open pages of the trajectory fetch its annotations again. Never blocks; without Redis they poll."""
    publisher().send(annotations_group(slug), {"type": ANNOTATIONS_CHANGED, "slug": slug})


def notify_inbox(user_ids: Iterable[int]) -> None:
    """Make open pages of the users fetch their inbox again. Never blocks; without Redis they poll."""
    for user_id in user_ids:
        publisher().send(inbox_group(str(user_id)), {"type": INBOX_CHANGED, "slug": str(user_id)})


@atexit.register
def _close_at_exit() -> None:
    """Flush before a short-lived command exits; the interpreter would abort on a thread inside a C++ module."""
    publisher_of_process = _publishers.get(os.getpid())
    if publisher_of_process is not None:
        publisher_of_process.close()
