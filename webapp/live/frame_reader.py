"""One reader per watched run and process, which fetches new frames once and shares the bytes with all sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from webapp.core.broadcast import BroadcastHub, hub_of_running_loop
from webapp.core.database import DATABASE_UNAVAILABLE, query
from webapp.core.publisher import PROGRESS, RUN_CHANGED, TOKENS, run_group
from webapp.ingest.event_frames import FRAME_TAIL, frame_head, frame_text
from webapp.live.shared_frames import SharedFrame
from webapp.runs.models import EventBatch, Run
from webapp.runs.public_texts import public_frame

logger = logging.getLogger(__name__)

POLL_INTERVAL = 2.0
POLL_WITHOUT_REDIS = 0.25
RETRY_INTERVAL = 2.0
PAGE_SIZE = 32
BUFFER_BYTES = 4 * 1024 * 1024
JOINED_LENGTH = 256 * 1024
LISTENERS_PER_TURN = 250
TOKENS_MAX_DELAY, PROGRESS_MAX_DELAY = 0.25, 1.0
"""Delays beyond which partial responses, and the progress of updates, are dropped; events never are."""


class Frame(NamedTuple):
    """A stored frame with the events `first` to `last`."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class RunStatus:
    """Status of a run: the fields of `hello`, and the cursor below which pages must reload."""

    seq: int
    attempt: int
    state: str
    resync_seq: int
    rebuilds: int
    failure: str
    journal_error: str


def run_status(run_id: int) -> RunStatus | None:
    """Return the current status of the run; None if it was deleted."""
    fields = ("seq", "attempt", "state", "requested", "resync_seq", "rebuilds", "failure", "journal_error")
    run = Run.objects.filter(pk=run_id).only(*fields).first()
    if run is None:
        return None
    return RunStatus(
        run.seq, run.attempt, run.shown_state, run.resync_seq, run.rebuilds, run.failure, run.journal_error
    )


def frames_after(run_id: int, seq: int) -> list[Frame]:
    """Return the next page of frames with events after `seq`."""
    rows = EventBatch.objects.filter(run_id=run_id, last_seq__gt=seq).order_by("last_seq")
    return [Frame(*row) for row in rows.values_list("first_seq", "last_seq", "frame")[:PAGE_SIZE]]


def status_and_frames(run_id: int, seq: int) -> tuple[RunStatus | None, list[Frame]]:
    """Return the current status of the run and the next page of frames after `seq`, in one thread hop."""
    status = run_status(run_id)
    return status, frames_after(run_id, seq) if status is not None and status.seq > seq else []


_executor = ThreadPoolExecutor(2, thread_name_prefix="reader")
"""Threads of the readers: in the shared pool, a burst of connecting sockets would stall all open pages."""


class SharedEvents:
    """New events `first` to `last` for all listeners; listeners outside the team get them without the team's texts."""

    def __init__(self, frame: Frame) -> None:
        self.first, self.last = frame.first, frame.last
        self.inside = SharedFrame(frame.text)

    @cached_property
    def outside(self) -> SharedFrame:
        text = public_frame(self.inside.text)
        return self.inside if text == self.inside.text else SharedFrame(text)


def joined(frames: Sequence[Frame]) -> list[Frame]:
    """Join frames up to JOINED_LENGTH and gaps, because each frame costs every socket a write."""
    texts: list[list[str]] = []
    bounds: list[tuple[int, int]] = []
    length = 0
    for frame in frames:
        events = frame.text.removeprefix(frame_head(frame.first, frame.last)).removesuffix(FRAME_TAIL)
        length += len(events)
        if not texts or length > JOINED_LENGTH or frame.first != bounds[-1][1] + 1:
            texts.append([])
            bounds.append((frame.first, frame.last))
            length = len(events)
        texts[-1].append(events)
        bounds[-1] = bounds[-1][0], frame.last
    return [
        Frame(first, last, frame_text(first, last, parts)) for (first, last), parts in zip(bounds, texts, strict=True)
    ]


class Listener(Protocol):
    """A socket, as seen by its reader. No method may block."""

    def wake(self) -> None:
        """Called when the run's status, the availability of Redis, or frames that were not passed on have changed."""

    def on_events(self, events: SharedEvents) -> None:
        """Called with new events, after all earlier ones were passed on."""

    def on_tokens(self, trajectory: str, frame: SharedFrame) -> None:
        """Called with a partial response."""

    def on_progress(self, frame: SharedFrame) -> None:
        """Called with the progress of an update."""


class FrameHub(BroadcastHub):
    """The readers of one event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._readers: dict[str, FrameReader] = {}

    def join(self, run_id: int, slug: str, status: RunStatus, listener: Listener) -> FrameReader:
        """Add a listener to the run's reader, and create the reader for the first listener."""
        self.start()
        reader = self._readers.get(slug)
        if reader is None:
            reader = self._readers[slug] = FrameReader(self, run_id, slug, status)
            self.changed()
        reader.listeners.add(listener)
        return reader

    async def leave(self, reader: FrameReader, listener: Listener) -> None:
        """Remove a listener; the reader ends with the last one."""
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

    def on_message(self, message: dict[str, Any]) -> None:
        if reader := self._readers.get(message.get("slug", "")):
            reader.on_message(message)


_hubs: dict[asyncio.AbstractEventLoop, FrameHub] = {}


def hub() -> FrameHub:
    """Return the hub of the running event loop."""
    return hub_of_running_loop(_hubs, FrameHub)


class FrameReader:
    """Follows one run. Listeners take frames from memory, or from the database when they fall behind the buffer."""

    def __init__(self, owner: FrameHub, run_id: int, slug: str, status: RunStatus) -> None:
        self.run_id, self.slug, self.status = run_id, slug, status
        self.hub = owner
        self.seq = status.seq
        self.deleted = False
        self.listeners: set[Listener] = set()
        self._buffer: deque[Frame] = deque()
        self._buffer_bytes = 0
        self.delay = 0.0
        """Seconds that the last round took, from the poll to the last listener."""
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._follow())

    def wake(self) -> None:
        """Poll the database now, and wake the listeners."""
        self._woken.set()
        self._wake_listeners()

    def buffered_after(self, cursor: int) -> list[Frame] | None:
        """Return frames with events after `cursor` from memory; None if the buffer does not reach back that far."""
        if cursor >= self.seq:
            return []
        if not self._buffer or self._buffer[0].first > cursor + 1:
            return None
        newest_first = list(takewhile(lambda frame: frame.last > cursor, reversed(self._buffer)))
        return newest_first[::-1]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def on_message(self, message: dict[str, Any]) -> None:
        """Handle a wake-up message, a partial response or the progress of an update."""
        if message["type"] == RUN_CHANGED:
            self._woken.set()
        elif message["type"] == TOKENS and self.delay <= TOKENS_MAX_DELAY:
            fields = {key: message[key] for key in ("trajectory", "turn", "text")}
            frame = SharedFrame(json.dumps({"type": "tokens", **fields}))
            for listener in self.listeners:
                listener.on_tokens(message["trajectory"], frame)
        elif message["type"] == PROGRESS and self.delay <= PROGRESS_MAX_DELAY:
            frame = SharedFrame(json.dumps({"type": "progress", "phase": message["phase"]}))
            for listener in self.listeners:
                listener.on_progress(frame)

    def _wake_listeners(self) -> None:
        for listener in self.listeners:
            listener.wake()

    async def _follow(self) -> None:
        while not self.deleted:
            self._woken.clear()
            began = time.monotonic()
            try:
                await self._poll()
                self.delay = time.monotonic() - began
            except DATABASE_UNAVAILABLE as error:
                logger.warning("The database does not answer (%s): live pages wait.", str(error).strip())
                await asyncio.sleep(RETRY_INTERVAL)
            try:
                async with asyncio.timeout(POLL_INTERVAL if self.hub.redis_answers else POLL_WITHOUT_REDIS):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _poll(self) -> None:
        previous, new = self.status, list[Frame]()
        while True:
            status, page = await query(status_and_frames, self.run_id, self.seq, executor=_executor)
            if status is None:
                self.deleted = True
                self._wake_listeners()
                return
            if status.rebuilds != self.status.rebuilds:
                self._skip_to(status.seq)
                new.clear()
                break
            new += page
            for frame in page:
                self._append(frame)
            if self.seq < status.seq and not page:  # pruned: clients that need these frames get a resync
                self._skip_to(status.seq)
            if self.seq >= status.seq:
                break
        self.status = status
        if replace(previous, seq=status.seq) != status or (not new and previous.seq != status.seq):
            self._wake_listeners()
        for frame in joined(new):
            await self._pass_on(SharedEvents(frame))

    async def _pass_on(self, events: SharedEvents) -> None:
        for number, listener in enumerate(list(self.listeners), 1):
            listener.on_events(events)
            if number % LISTENERS_PER_TURN == 0:
                await asyncio.sleep(0)  # pages and answers of clients must not wait for all of them

    def _skip_to(self, seq: int) -> None:
        self._buffer.clear()
        self._buffer_bytes = 0
        self.seq = seq

    def _append(self, frame: Frame) -> None:
        self._buffer.append(frame)
        self._buffer_bytes += len(frame.text)
        self.seq = frame.last
        while self._buffer_bytes > BUFFER_BYTES and len(self._buffer) > 1:
            self._buffer_bytes -= len(self._buffer.popleft().text)
