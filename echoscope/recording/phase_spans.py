"""Phases of a recorded run between two calls of log(), for its timeline."""

from __future__ import annotations

import threading
import time
from typing import Any

MAX_SPANS = 120
"""Spans of an event; the first ones of longer lists are merged into one."""
TRACK = "trainer"


class PhaseSpans:
    """Collects phases, by any thread, until they are taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began, self._epoch = time.monotonic(), time.time()
        self._spans: list[tuple[float, float, str]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how copies in other processes are made: they have phases of their own."""
        return PhaseSpans, ()

    def begin(self) -> float:
        """Return the beginning of a phase, for `end`."""
        return time.monotonic()

    def end(self, kind: str, began: float) -> None:
        """Add a phase that ends now."""
        with self._lock:
            self._spans.append((max(began, self._began), time.monotonic(), kind or "other"))

    def take(self) -> dict[str, Any] | None:
        """Return the fields of a timeline event since the last one, and begin the next; None without a phase."""
        with self._lock:
            if not self._spans:
                return None
            began, epoch, spans = self._began, self._epoch, sorted(self._spans)
            self._began, self._epoch, self._spans = time.monotonic(), time.time(), []
            seconds = self._began - began
        return {"began": epoch, "seconds": seconds, "tracks": {TRACK: _records(began, spans)}}


def _records(zero: float, spans: list[tuple[float, float, str]]) -> list[dict[str, Any]]:
    surplus = len(spans) - MAX_SPANS
    first, rest = (spans[: surplus + 1], spans[surplus + 1 :]) if surplus > 0 else ([], spans)
    records = [_record(zero, [span]) for span in rest]
    return [_record(zero, first), *records] if first else records


def _record(zero: float, spans: list[tuple[float, float, str]]) -> dict[str, Any]:
    work: dict[str, float] = {}
    for began, ended, kind in spans:
        work[kind] = work.get(kind, 0.0) + ended - began
    start, end = spans[0][0], max(ended for _, ended, _ in spans)
    return {"start": round(start - zero, 4), "seconds": round(end - start, 4), "work": work}
