"""Where the time of a run went: tracks of an iteration as bands, their shares, and a trace for Perfetto."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.metrics.timeline import KINDS, LEARNER, PLAYER, PROCESSOR, TRAINER
from webapp.runs.models import Run, TimelinePart

RECENT = 20
"""Newest iterations whose shares are averaged."""
MAIN_TRACKS = (TRAINER, PLAYER, LEARNER)
LAST_TRACKS = (PROCESSOR,)
UNKNOWN_KIND = "other"
HEIGHT, GAP = 22.0, 6.0
"""Of a band, and between two, in units of the picture."""


@dataclass(frozen=True)
class Rectangle:
    """A kind of work in a span: a rectangle whose height is its share of the span. Positions in % and units."""

    left: float
    width: float
    top: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True)
class Track:
    """A track of an iteration, with its rectangles and the shares of time of each kind of work and of idleness."""

    name: str
    top: float
    rectangles: Sequence[Rectangle]
    shares: Mapping[str, float]
    idle: float


@dataclass(frozen=True)
class Picture:
    """The tracks of one iteration, drawn to a length of time that several pictures may share."""

    part: TimelinePart
    tracks: Sequence[Track]
    seconds: float
    kinds: Sequence[str] = field(default_factory=list)

    @property
    def height(self) -> float:
        return len(self.tracks) * (HEIGHT + GAP)

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Kinds of work in the picture, with their meaning."""
        return [(kind, KINDS.get(kind, kind)) for kind in self.kinds]


def find_part(run: Run, iteration: int | None, *, start: bool = False) -> TimelinePart | None:
    """Return the newest record of an iteration, by default of the last one; with `start`, of what came before it."""
    parts = run.timeline.filter(part=TimelinePart.Part.START if start else TimelinePart.Part.ITERATION)
    if iteration is not None:
        parts = parts.filter(iteration=iteration)
    return parts.order_by("-iteration", "-attempt").first()


def draw(part: TimelinePart, seconds: float = 0.0) -> Picture:
    """Draw a part of the timeline; `seconds` is the length of the axis, at least the length of the part."""
    length = max(part.seconds, seconds, 1e-6)
    tracks, kinds = [], dict.fromkeys(KINDS, 0.0)
    for number, name in enumerate(_in_order(part.tracks)):
        top = number * (HEIGHT + GAP)
        spans, shares = part.tracks[name], _shares([part], name)
        tracks.append(Track(name, top, list(_rectangles(spans, top, length)), shares, _idle(shares)))
        for kind, share in shares.items():
            kinds[_known(kind)] = kinds.get(_known(kind), 0.0) + share
    return Picture(part, tracks, length, [kind for kind, share in kinds.items() if share > 0])


def _rectangles(spans: Sequence[Mapping[str, Any]], top: float, length: float) -> Iterator[Rectangle]:
    for span in spans:
        at = top
        for kind, seconds in span["work"].items():
            share = min(1.0, seconds / span["seconds"]) if span["seconds"] else 0.0
            height = min(share * HEIGHT, top + HEIGHT - at)
            if height <= 0:
                continue
            title = f"{KINDS.get(kind, kind)}: {seconds:.2f} s of {span['seconds']:.2f} s, at {span['start']:.2f} s"
            yield Rectangle(
                round(100 * span["start"] / length, 3),
                round(max(0.05, 100 * span["seconds"] / length), 3),
                round(at, 2),
                round(height, 2),
                _known(kind),
                title,
            )
            at += height


def _known(kind: str) -> str:
    return kind if kind in KINDS else UNKNOWN_KIND


def _in_order(tracks: Iterable[str]) -> list[str]:
    """Return the trainer's own tracks, then actors and GPUs by name and number, then the processor."""

    def rank(name: str) -> tuple[int, str, int]:
        words, _, number = name.rpartition(" ")
        digits = int(number) if number.isdigit() else 0
        if name in MAIN_TRACKS:
            return 0, "", MAIN_TRACKS.index(name)
        return (2 if name in LAST_TRACKS else 1), words, digits

    return sorted(tracks, key=rank)


def _shares(parts: Sequence[TimelinePart], track: str) -> dict[str, float]:
    """Return the share of the parts' time that each kind of work took on a track."""
    total = sum(part.seconds for part in parts)
    work: dict[str, float] = defaultdict(float)
    for part in parts:
        for span in part.tracks.get(track, ()):
            for kind, seconds in span["work"].items():
                work[kind] += seconds
    return {kind: seconds / total for kind, seconds in work.items()} if total else {}


def _idle(shares: Mapping[str, float]) -> float:
    return max(0.0, 1 - sum(shares.values()))


@dataclass(frozen=True)
class TrackShares:
    """Shares of the time of several iterations on a track."""

    name: str
    shares: Sequence[tuple[str, float]]
    idle: float


def recent_shares(run: Run) -> tuple[int, list[TrackShares]]:
    """Return the number of recorded newest iterations, up to RECENT, and the shares of their time. One query."""
    parts = list(
        run.timeline.filter(part=TimelinePart.Part.ITERATION, repeated=False).order_by("-iteration", "-attempt")[
            :RECENT
        ]
    )
    names = _in_order({name for part in parts for name in part.tracks})
    tracks = []
    for name in names:
        shares = _shares(parts, name)
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        tracks.append(TrackShares(name, [(KINDS.get(kind, kind), share) for kind, share in ordered], _idle(shares)))
    return len(parts), tracks


def trace_events(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the timeline as events of the Trace Event Format (JSON), which ui.perfetto.dev opens.

    A kind of work in a span is a slice; kinds that alternated within a span follow each other, with their sums.
    """
    numbers: dict[str, int] = {}
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": run.title}}
    for part in run.timeline.order_by("began", "pk").iterator(chunk_size=50):
        began = part.began.timestamp()
        what = f"iteration {part.iteration}" if part.part == TimelinePart.Part.ITERATION else "start"
        yield _slice(0, what, began, part.seconds, {"attempt": part.attempt, "repeated": part.repeated})
        for name in _in_order(part.tracks):
            if name not in numbers:
                numbers[name] = len(numbers) + 1
                yield {"ph": "M", "pid": 1, "tid": numbers[name], "name": "thread_name", "args": {"name": name}}
            for span in part.tracks[name]:
                at = began + span["start"]
                for kind, seconds in span["work"].items():
                    yield _slice(numbers[name], kind, at, seconds, {"iteration": part.iteration})
                    at += seconds


def _slice(thread: int, name: str, began: float, seconds: float, details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": 1,
        "tid": thread,
        "name": name,
        "ts": round(began * 1e6),
        "dur": round(seconds * 1e6),
        "args": dict(details),
    }


def trace_text(run: Run) -> Iterator[str]:
    """Yield the trace as JSON text, event by event."""
    yield '{"displayTimeUnit":"ms","traceEvents":['
    for number, event in enumerate(trace_events(run)):
        yield ("," if number else "") + json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    yield "]}"
