"""Where the time of an iteration goes: what each process did when, as spans on tracks.

A span has a beginning, a length and the seconds of each kind of work in it. Tracks with many short spans, such as
sampling and environments that alternate, are summarised into a bounded number of longer ones; sums are kept exactly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

KINDS = {
    "load": "loading models, starting processes",
    "warmup": "steps on demonstrations",
    "rollout": "rollout",
    "update": "update",
    "evaluate": "evaluation",
    "checkpoint": "writing checkpoints",
    "weights": "copying weights to the samplers",
    "sampling": "sampling tokens",
    "environment": "environments, texts and the journal",
    "playing": "playing",
    "prepare": "measuring thoughts",
    "reference": "log-probabilities under the initial policy",
    "old": "log-probabilities before the update",
    "values": "values of the critic",
    "diagnostics": "gradients of single loss terms",
    "step": "optimiser steps",
    "busy": "busy",
}
"""Kinds of work, with their meaning."""
TRAINER, PLAYER, LEARNER, PROCESSOR = "trainer", "player", "learner", "processor"
"""Tracks of a run in one process. Others are named after actors and GPUs."""
MAX_SPANS = 120
"""Spans of a track and iteration; neighbours are merged beyond that."""


@dataclass(frozen=True)
class Span:
    """Work on a track.

    Attributes:
        start: beginning in seconds since the beginning of the lap.
        seconds: length, at least the sum of `work`.
        work: seconds of each kind; the rest is idle.
    """

    start: float
    seconds: float
    work: Mapping[str, float]


@dataclass(frozen=True)
class Lap:
    """What the tracks of a run did between two moments.

    Attributes:
        began: beginning, in seconds since the epoch.
        seconds: length.
        tracks: spans of each track by beginning.
    """

    began: float
    seconds: float
    tracks: Mapping[str, Sequence[Span]]


@dataclass
class _Open:
    """An open span; `recorded` is the end of its part in earlier laps."""

    track: str
    kind: str
    began: float
    recorded: float


class Timeline:
    """Records spans until the end of a lap; open spans continue in the next lap. Threads may share it.

    Args:
        clock: seconds of a clock that never jumps, to which all times are relative.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began, self._epoch = clock(), time.time()
        self._spans: dict[str, list[tuple[float, float, Mapping[str, float]]]] = {}
        self._open: dict[int, _Open] = {}
        self._next = 0

    def add(self, track: str, began: float, ended: float, work: Mapping[str, float] | str) -> None:
        """Add a span between two moments of the clock; only its part in the current lap counts.

        Args:
            work: seconds of each kind of work, or the only kind.
        """
        if isinstance(work, str):
            work = {work: ended - began}
        with self._lock:
            self._add(track, began, ended, work)

    def open(self, track: str, kind: str) -> int:
        """Begin a span now. Returns its number, for `close`."""
        with self._lock:
            self._next += 1
            now = self._clock()
            self._open[self._next] = _Open(track, kind, now, now)
            return self._next

    def close(self, number: int, work: Mapping[str, float] | None = None) -> None:
        """End a span now; a span that was closed before is ignored.

        Args:
            work: seconds of each kind of work since the span was opened; None: all of it is of its kind. The part in
                earlier laps counts as of its kind.
        """
        with self._lock:
            span = self._open.pop(number, None)
            if span is None:
                return
            now = self._clock()
            seconds, whole = now - span.recorded, now - span.began
            parts = {span.kind: 1.0} if work is None else {kind: value / whole for kind, value in work.items() if whole}
            self._add(span.track, span.recorded, now, {kind: share * seconds for kind, share in parts.items()})

    @contextmanager
    def span(self, track: str, kind: str) -> Iterator[None]:
        """Record the time of the block."""
        number = self.open(track, kind)
        try:
            yield
        finally:
            self.close(number)

    def finish(self) -> Lap:
        """End the lap now; the next one begins."""
        with self._lock:
            now = self._clock()
            for span in self._open.values():
                self._add(span.track, span.recorded, now, {span.kind: now - span.recorded})
                span.recorded = now
            began, epoch, spans = self._began, self._epoch, self._spans
            self._began, self._epoch, self._spans = now, time.time(), {}
        tracks = {track: _summarised(began, found) for track, found in sorted(spans.items())}
        return Lap(epoch, now - began, tracks)

    def _add(self, track: str, began: float, ended: float, work: Mapping[str, float]) -> None:
        start = max(began, self._began)
        if ended <= start:
            return
        part = (ended - start) / (ended - began)
        self._spans.setdefault(track, []).append(
            (start, ended, {kind: part * seconds for kind, seconds in work.items()})
        )


def _summarised(zero: float, spans: list[tuple[float, float, Mapping[str, float]]]) -> list[Span]:
    """Return at most MAX_SPANS spans by beginning, merged from neighbours."""
    spans = sorted(spans, key=lambda span: span[0])
    size = -(-len(spans) // MAX_SPANS)
    merged = []
    for first in range(0, len(spans), max(1, size)):
        part = spans[first : first + size]
        began, ended = part[0][0], max(end for _, end, _ in part)
        work: dict[str, float] = {}
        for _, _, seconds in part:
            for kind, value in seconds.items():
                work[kind] = work.get(kind, 0.0) + value
        merged.append(Span(began - zero, ended - began, work))
    return merged
