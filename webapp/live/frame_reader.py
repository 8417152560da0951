"""One reader per watched run per process: fetches new frames once and shares the bytes with all sockets of the process.

What goes over a socket, and to whom, is in live.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from channels.db import database_sync_to_async
from django.db import InterfaceError, OperationalError

from webapp.core.broadcast import BroadcastHub, of_this_loop
from webapp.core.publisher import RUN_CHANGED, TOKENS, run_group
from webapp.runs.models import EventBatch, Run

logger = logging.getLogger(__name__)

SAFETY_POLL = 2.0
POLL_WITHOUT_REDIS = 0.25
RETRY = 2.0
PAGE = 32
RING_BYTES = 4 * 1024 * 1024
DATABASE_GONE = (OperationalError, InterfaceError)


class Frame(NamedTuple):
    """A stored frame and the events in it."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands: what hello says, and from which cursor on events make sense."""

    seq: int
    attempt: int
    state: str
    resync_seq: int
    failure: str
    journal_error: str


@database_sync_to_async
def run_status(run_id: int) -> RunStatus | None:
    """Where the run stands now; None if it is gone."""
    return _run_status(run_id)


@database_sync_to_async
def frames_after(run_id: int, seq: int) -> list[Frame]:
    """The next page of frames that hold events after `seq`."""
    return _frames_after(run_id, seq)


def _run_status(run_id: int) -> RunStatus | None:
    fields = ("seq", "attempt", "state", "requested", "resync_seq", "failure", "journal_error")
    run = Run.objects.filter(pk=run_id).only(*fields).first()
    if run is None:
        return None
    return RunStatus(run.seq, run.attempt, run.shown_state, run.resync_seq, run.failure, run.journal_error)


def _frames_after(run_id: int, seq: int) -> list[Frame]:
    rows = EventBatch.objects.filter(run_id=run_id, last_seq__gt=seq).order_by("last_seq")
    return [Frame(*row) for row in rows.values_list("first_seq", "last_seq", "frame")[:PAGE]]


_looking = ThreadPoolExecutor(2, thread_name_prefix="reader")
"""Readers have threads of their own: behind a crowd of arriving sockets everybody who is there already would wait."""


async def _look_after(run_id: int, seq: int) -> tuple[RunStatus | None, list[Frame]]:
    """Where the run stands, and the next page of frames after `seq`, by one trip to the database."""

    def look() -> tuple[RunStatus | None, list[Frame]]:
        now = _run_status(run_id)
        return now, _frames_after(run_id, seq) if now is not None and now.seq > seq else []

    return await database_sync_to_async(look, thread_sensitive=False, executor=_looking)()


class Listener(Protocol):
    """A socket as its reader sees it. Neither call may wait."""

    def wake(self) -> None:
        """Something changed: frames, the run's standing, or whether Redis answers."""

    def offer(self, tokens: dict[str, Any]) -> None:
        """A thought as far as it is written."""


class FrameHub(BroadcastHub):
    """The readers of one event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._readers: dict[str, FrameReader] = {}

    def join(self, run_id: int, slug: str, now: RunStatus, listener: Listener) -> FrameReader:
        """The run's reader, with one listener more."""
        self.start()
        reader = self._readers.get(slug)
        if reader is None:
            reader = self._readers[slug] = FrameReader(self, run_id, slug, now)
            self.changed()
        reader.listeners.add(listener)
        return reader

    async def leave(self, reader: FrameReader, listener: Listener) -> None:
        """One listener less; with the last one the reader ends."""
        reader.listeners.discard(listener)
        if not reader.listeners and self._readers.get(reader.slug) is reader:
            del self._readers[reader.slug]
            self.changed()
            await reader.close()

    def group(self, slug: str) -> str:
        return run_group(slug)

    def watched(self) -> Collection[str]:
        return self._readers.keys()

    def wake(self, slug: str) -> None:
        if reader := self._readers.get(slug):
            reader.wake()

    def hear(self, message: dict[str, Any]) -> None:
        if reader := self._readers.get(message.get("slug", "")):
            reader.hear(message)


_hubs: dict[asyncio.AbstractEventLoop, FrameHub] = {}


def hub() -> FrameHub:
    """The hub of the running event loop."""
    return of_this_loop(_hubs, FrameHub)


class FrameReader:
    """Follows one run. Listeners take frames from memory, or from the database when they are slower than that."""

    def __init__(self, owner: FrameHub, run_id: int, slug: str, now: RunStatus) -> None:
        self.run_id, self.slug, self.now = run_id, slug, now
        self.hub = owner
        self.seq = now.seq
        self.gone = False
        self.listeners: set[Listener] = set()
        self._ring: deque[Frame] = deque()
        self._ring_bytes = 0
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._follow())

    def wake(self) -> None:
        """Look at the database now, and let listeners look, too."""
        self._woken.set()
        self._tell()

    def fresh(self, cursor: int) -> list[Frame] | None:
        """Frames with events after `cursor` from memory; None if they are not all there."""
        if cursor >= self.seq:
            return []
        if not self._ring or self._ring[0].first > cursor + 1:
            return None
        new = list(takewhile(lambda frame: frame.last > cursor, reversed(self._ring)))
        return new[::-1]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def hear(self, message: dict[str, Any]) -> None:
        """A wake-up call, or a thought for whoever watches it."""
        if message["type"] == RUN_CHANGED:
            self._woken.set()
        elif message["type"] == TOKENS:
            for listener in self.listeners:
                listener.offer(message)

    def _tell(self) -> None:
        for listener in self.listeners:
            listener.wake()

    async def _follow(self) -> None:
        while not self.gone:
            self._woken.clear()
            try:
                await self._look()
            except DATABASE_GONE as error:
                logger.warning("The database does not answer (%s): live pages wait.", str(error).strip())
                await asyncio.sleep(RETRY)
            try:
                async with asyncio.timeout(SAFETY_POLL if self.hub.redis_answers else POLL_WITHOUT_REDIS):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        before = (self.now, self.seq)
        while True:
            now, page = await _look_after(self.run_id, self.seq)
            if now is None:
                self.gone = True
                self._tell()
                return
            for frame in page:
                self._remember(frame)
            if self.seq < now.seq and not page:  # pruned: whoever needs them is told to reload
                self._ring.clear()
                self._ring_bytes = 0
                self.seq = now.seq
            if self.seq >= now.seq:
                break
        self.now = now
        if before != (self.now, self.seq):
            self._tell()

    def _remember(self, frame: Frame) -> None:
        self._ring.append(frame)
        self._ring_bytes += len(frame.text)
        self.seq = frame.last
        while self._ring_bytes > RING_BYTES and len(self._ring) > 1:
            self._ring_bytes -= len(self._ring.popleft().text)
