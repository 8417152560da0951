"""Curve of the value by play, and table of the influence of thoughts, as the server draws them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb

from trainer.journal.branches import Influences, Share, Thought, TurnInfluence, TurnValue, Values
from webapp.core import formatting

WIDTH, HEIGHT = 1000.0, 300.0
"""Of the drawing, which is stretched to its place."""
MAX_TICKS = 14
MAX_ACTIONS = 3
MAX_THOUGHT = 600
OTHER_THOUGHTS: tuple[tuple[Thought, str], ...] = (
    ("none", "no thought"),
    ("other", "another attempt’s thought"),
    ("false", "its thought with false claims"),
)


@dataclass(frozen=True)
class ValueRow:
    """A turn of the table. `turn` is counted from 1."""

    turn: int
    solved: Share
    fall: float
    decisive: bool

    @property
    def share(self) -> str:
        return f"{self.solved.share:.0%}"

    @property
    def interval(self) -> str:
        return f"{self.solved.low:.0%} to {self.solved.high:.0%}"

    @property
    def change(self) -> str:
        """Change of the share solved in percentage points, e.g. “−68.8”."""
        return formatting.points(-self.fall)


@dataclass(frozen=True)
class ValueCurve:
    """Share solved by turn: paths of the drawing, its ticks, a sentence, and the numbers."""

    band: str
    line: str
    dots: str
    decisive: str
    ticks: Sequence[tuple[int, bool]]
    end: str
    rows: Sequence[ValueRow]
    sentence: str
    turn: int | None
    description: str


def value_curve(values: Values) -> ValueCurve:
    """Draw the share solved from each turn on, and the outcome at its end."""
    turns, outcome = values.turns, values.outcome
    points = [(turn.solved.share, turn.solved.low, turn.solved.high) for turn in turns]
    line = [share for share, _, _ in points] + ([] if outcome is None else [float(outcome)])
    across = [_x(index, len(line)) for index in range(len(line))]
    lower = [f"{x:.1f} {_y(low):.1f}" for x, (_, low, _) in zip(across, points, strict=False)]
    upper = [f"{x:.1f} {_y(high):.1f}" for x, (_, _, high) in zip(across, points, strict=False)]
    at = next((index for index, turn in enumerate(turns) if turn.turn == values.decisive), None)
    step = -(-len(turns) // MAX_TICKS) or 1
    return ValueCurve(
        band=f"M{' L'.join([*upper, *reversed(lower)])}Z" if points else "",
        line=_path(across, line),
        dots=" ".join(f"M{x:.1f} {_y(share):.1f}h0" for x, share in zip(across, line, strict=True)),
        decisive="" if at is None else _path(across[at : at + 2], line[at : at + 2]),
        ticks=[(turn.turn + 1, index % step == 0) for index, turn in enumerate(turns)],
        end={True: "solved", False: "not solved", None: ""}[outcome],
        rows=[_row(turn, values) for turn in turns],
        sentence=_decided(values, at),
        turn=None if at is None else turns[at].turn + 1,
        description="Share solved from each turn: "
        + ", ".join(f"turn {turn.turn + 1} {turn.solved.share:.0%}" for turn in turns),
    )


def _row(turn: TurnValue, values: Values) -> ValueRow:
    return ValueRow(turn.turn + 1, turn.solved, turn.fall, turn.turn == values.decisive)


def _decided(values: Values, at: int | None) -> str:
    if at is None:
        return "No turn lost anything."
    turns = values.turns
    before = f"{turns[at].solved.solved} of {turns[at].solved.samples} continuations solve it"
    if at + 1 < len(turns):
        after = turns[at + 1].solved
        return f"{before}, after it {after.solved} of {after.samples}."
    return f"{before}; the attempt itself did not."


def _x(index: int, count: int) -> float:
    return WIDTH * index / max(1, count - 1)


def _y(share: float) -> float:
    return HEIGHT * (1 - min(1.0, max(0.0, share)))


def _path(across: Sequence[float], shares: Sequence[float]) -> str:
    points = [f"{x:.1f} {_y(share):.1f}" for x, share in zip(across, shares, strict=True)]
    return f"M{' L'.join(points)}" if points else ""


@dataclass(frozen=True)
class Distance:
    """A number from 0 to 1 with its bar; None: not known."""

    label: str
    value: float | None

    @property
    def text(self) -> str:
        return "" if self.value is None else f"{self.value:.2f}"

    @property
    def width(self) -> str:
        return f"{100 * min(1.0, max(0.0, self.value or 0.0)):.1f}"


@dataclass(frozen=True)
class InfluenceRow:
    """A turn of the table. `turn` is counted from 1; actions and thoughts come with the names of the thoughts."""

    turn: int
    distances: Sequence[Distance]
    actions: Sequence[tuple[str, str]]
    thoughts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class InfluenceTable:
    """Influence of the thought at every turn, and on average; `chance` is the mean of `by_chance` over the turns."""

    rows: Sequence[InfluenceRow]
    means: Sequence[tuple[str, str]]
    chance: str


def influence_table(influences: Influences) -> InfluenceTable:
    """Return the table of the influence of thoughts."""
    turns = influences.turns
    means = [(label, _mean(turn.distances.get(name) for turn in turns)) for name, label in OTHER_THOUGHTS]
    known = [(label, f"{mean:.2f}") for label, mean in means if mean is not None]
    chance = _mean(_chance(turn) for turn in turns)
    return InfluenceTable([_influence(turn) for turn in turns], known, "" if chance is None else f"{chance:.2f}")


def by_chance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the mean total variation distance of two samples of one distribution, given both together.

    Each way to deal the samples into two of these sizes is equally likely (hypergeometric counts).
    """
    first, second = sum(one.values()), sum(other.values())
    if not first or not second:
        return 0.0
    distance = 0.0
    for text in {*one, *other}:
        count = one.get(text, 0) + other.get(text, 0)
        for drawn in range(max(0, count - second), min(count, first) + 1):
            ways = comb(count, drawn) * comb(first + second - count, first - drawn)
            distance += abs(drawn / first - (count - drawn) / second) * ways / comb(first + second, first)
    return distance / 2


def _chance(turn: TurnInfluence) -> float | None:
    own = turn.actions.get("own", {})
    return _mean(by_chance(own, counts) for name, counts in turn.actions.items() if name != "own")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _influence(turn: TurnInfluence) -> InfluenceRow:
    distances = [Distance("influence", turn.influence)]
    distances += [Distance(label, turn.distances.get(name)) for name, label in OTHER_THOUGHTS]
    named: tuple[tuple[Thought, str], ...] = (("own", "its own thought"), *OTHER_THOUGHTS)
    actions = [(label, _frequent(turn.actions[name])) for name, label in named if name in turn.actions]
    texts = (("another attempt’s thought", turn.other), ("its thought with false claims", turn.false))
    thoughts = [(label, text[:MAX_THOUGHT]) for label, text in texts if text]
    return InfluenceRow(turn.turn + 1, distances, actions, thoughts)


def _frequent(actions: Mapping[str, int]) -> str:
    """Return the most frequent actions of a turn, e.g. “Left, Up ×12 · Down ×4”."""
    ordered = sorted(actions.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{_actions(text)} ×{count}" for text, count in ordered[:MAX_ACTIONS]]
    left = sum(count for _, count in ordered[MAX_ACTIONS:])
    return " · ".join([*shown, *([f"others ×{left}"] if left else [])])


def _actions(text: str) -> str:
    return text.replace(" || ", ", ")[:80] or "no action"
