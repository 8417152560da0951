"""Template data of the explorer: table rows and columns, form fields, and descriptions of the active filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from django.db.models import Q
from django.db.models.fields.json import KT
from django.db.models.functions import Left
from django.urls import reverse
from django.utils.safestring import SafeString

from envs.claims.kinds import CLAIM_KINDS
from trainer.metrics.training_use import TRAINING_USES
from webapp.core import formatting
from webapp.explorer.breaks import breaks
from webapp.explorer.counts import ResultCounts
from webapp.explorer.excerpts import Pieces, excerpt, search_patterns
from webapp.explorer.filter_values import HIDEABLE, MARKS, OUTCOMES
from webapp.explorer.found import found_query
from webapp.explorer.trajectory_filters import DEFAULT_SORT, Filters, search, submitted
from webapp.saved_views.models import Label
from webapp.trajectories.end_reasons import END_REASONS, LOST
from webapp.trajectories.mistakes.values import GLYPHS
from webapp.trajectories.models import MAX_SEARCHED_LENGTH, Trajectory, Turn
from webapp.trajectories.positions import START, position_query

FIRST_WORDS = 110
COLUMNS = (
    ("iteration", "Iteration", "number"),
    ("place", "{noun} · attempt", ""),
    ("environment", "Environment", "several"),
    ("outcome", "Ended", ""),
    ("mark", "Worst mark", ""),
    ("reward", "Reward", "number"),
    ("turns", "Turns", "number right"),
    ("actions", "Actions", "number right"),
    ("tokens", "Tokens", "number right"),
    ("format", "Format", ""),
    ("kept", "Kept", ""),
)
ASCENDING_FIRST = {"place", "environment", "outcome"}


@dataclass(frozen=True)
class OutcomeLabel:
    """Outcome of a trajectory as a label, with its sign."""

    word: str
    sign: str
    tone: str = ""


def outcome(trajectory: Trajectory) -> OutcomeLabel:
    """Return the most specific outcome that applies."""
    match trajectory.status:
        case Trajectory.Status.SUCCESS:
            return OutcomeLabel("solved", "✓", "good")
        case Trajectory.Status.PLAYING:
            return OutcomeLabel("playing", "▸")
        case Trajectory.Status.WAITING:
            return OutcomeLabel("waiting", "·")
        case Trajectory.Status.INTERRUPTED:
            return OutcomeLabel("interrupted", "‖")
    if trajectory.error:
        return OutcomeLabel("error", "!", "bad")
    if trajectory.status == Trajectory.Status.UNKNOWN:
        return OutcomeLabel("ended", "–")
    if trajectory.end == "truncated":
        return OutcomeLabel("cut off", "✂", "bad")
    return OutcomeLabel("lost", "⊘", "bad") if trajectory.lost_at else OutcomeLabel("failed", "✗", "bad")


def ending(trajectory: Trajectory) -> OutcomeLabel:
    """Return the end as a label of the filter `reason`; for attempts in progress their outcome."""
    label = outcome(trajectory)
    if trajectory.end_reason not in END_REASONS:
        return label
    sign = "⊘" if trajectory.end_reason in LOST else label.sign
    return OutcomeLabel(END_REASONS[trajectory.end_reason], sign, label.tone)


def worst_mark(trajectory: Trajectory) -> OutcomeLabel:
    """Return the worst mark of an attempt: its glyph as the sign, and its class as the label."""
    match trajectory.worst_mark:
        case None | Trajectory.WorstMark.UNKNOWN:
            ended = trajectory.status in Trajectory.ENDED
            waits = trajectory.worst_mark is None and ended
            return OutcomeLabel("not judged yet" if waits else "not judged" if ended else "", "")
        case Trajectory.WorstMark.NONE:
            return OutcomeLabel("no mistakes", "")
    kind = Trajectory.WorstMark(trajectory.worst_mark)
    return OutcomeLabel(kind.label.lower(), GLYPHS_OF[kind], "warn" if kind == kind.INACCURACY else "bad")


GLYPHS_OF = {Trajectory.WorstMark[name.upper()]: glyph for name, glyph in GLYPHS.items()}


@dataclass(frozen=True)
class TrajectoryRow:
    """A row of the table. The bar is between −100 and 100; `excerpt` are pieces of text, with True for matches."""

    trajectory: Trajectory
    address: str
    outcome: OutcomeLabel
    mark: OutcomeLabel
    bar_start: float
    bar_length: float
    excerpt: Pieces
    board: SafeString | None
    label: Label | None

    @property
    def answer(self) -> str:
        """Answer of its label for the open view: yes, no or none."""
        return "none" if self.label is None else "yes" if self.label.right else "no"


def rows(
    items: Sequence[Trajectory], filters: Filters, labels: Mapping[int, Label] | None = None
) -> list[TrajectoryRow]:
    """Return the page's table rows from trajectories with their groups; two queries, for excerpts and boards.

    The addresses contain the filters, so that the player can continue within the results.

    Args:
        labels: labels for the open view by trajectory.
    """
    excerpts, matched = _matches(items, filters.text) if filters.text else (_thought_starts(items), {})
    largest = max((abs(item.total_reward) for item in items), default=0.0) or 1.0
    address = reverse("trajectory", args=["_"]).removesuffix("_")  # once: 50 look-ups take as long as a query
    boards = breaks(items)
    results_query = found_query(filters.query())
    result = []
    for item in items:
        length = round(100 * item.total_reward / largest, 1)
        there = position_query(matched[item.pk], START) if item.pk in matched else boards[item.pk].query
        result.append(
            TrajectoryRow(
                trajectory=item,
                address=f"{address}{item.slug}{there}{'&' if there else '?'}{results_query}",
                outcome=ending(item),
                mark=worst_mark(item),
                bar_start=min(0.0, length),
                bar_length=abs(length),
                excerpt=excerpts.get(item.pk, []),
                board=boards[item.pk].board,
                label=(labels or {}).get(item.pk),
            )
        )
    return result


def _thought_starts(items: Sequence[Trajectory]) -> dict[int, Pieces]:
    """Return the beginnings of the first thoughts; for other trainers' turns without one, of the answers."""
    turns = Turn.objects.filter(trajectory__in=[item.pk for item in items], number=0)
    texts = turns.annotate(recorded=Q(trajectory__run__config__has_key="recorded")).values_list(
        "trajectory_id", "recorded", *(Left(KT(f"event__{name}"), FIRST_WORDS + 1) for name in ("thought", "answer"))
    )
    return {
        pk: [(formatting.beginning(thought or (recorded and answer) or "", FIRST_WORDS), False)]
        for pk, recorded, thought, answer in texts
    }


def _matches(items: Sequence[Trajectory], text: str) -> tuple[dict[int, Pieces], dict[int, int]]:
    """Return an excerpt and the number of the first matching turn by trajectory; without one, of the comment."""
    matches = (
        Turn.objects.filter(trajectory__in=[item.pk for item in items], words=search(text))
        .order_by("trajectory", "number")
        .distinct("trajectory")
        .values_list(
            "trajectory_id",
            "number",
            Left(KT("event__thought"), MAX_SEARCHED_LENGTH),
            Left(KT("event__answer"), MAX_SEARCHED_LENGTH),
        )
    )
    patterns = search_patterns(text)
    excerpts: dict[int, Pieces] = {}
    numbers: dict[int, int] = {}
    for pk, number, thought, answer in matches:
        excerpts[pk] = [(f"Turn {number + 1}: ", False), *excerpt(f"{thought or ''} → {answer or ''}", patterns)]
        numbers[pk] = number
    return {item.pk: excerpt(item.commentary, patterns) for item in items} | excerpts, numbers


@dataclass(frozen=True)
class Column:
    """A column heading: the query of a click, and the current order ("ascending", "descending" or "")."""

    name: str
    title: str
    kind: str
    sorted: str
    query: str


def columns(filters: Filters, noun: str, several_environments: bool, *, sorted: bool = True) -> list[Column]:
    """Return the column headings of the table. A second click reverses the order.

    Args:
        noun: name of an initial state in the run's environment, such as "puzzle".
        several_environments: True to show the environment of each attempt.
        sorted: False for a random order.
    """
    result = []
    for name, title, kind in COLUMNS:
        if kind == "several" and not several_environments:
            continue
        order = {name: "ascending", f"-{name}": "descending"}.get(filters.sort, "") if sorted else ""
        ascending = order == "descending" or (not order and name in ASCENDING_FIRST)
        sort = name if ascending else f"-{name}"
        query = filters.query(sort=None if sort == DEFAULT_SORT else sort)
        result.append(Column(name, title.format(noun=noun.capitalize()), kind, order, query))
    return result


def hideable(filters: Filters, several_environments: bool) -> list[tuple[str, bool, str]]:
    """Return title, visibility and the query string of the other choice for each column that can be hidden."""
    titles = {"board": "Board", "said": "Thought"} | {name: title for name, title, _ in COLUMNS}
    hidden = filters.hide.split()
    result = []
    for name in HIDEABLE:
        if name == "environment" and not several_environments:
            continue
        other = [column for column in HIDEABLE if (column in hidden) != (column == name)]
        result.append((titles[name], name not in hidden, filters.query(hide=" ".join(other) or None)))
    return result


@dataclass(frozen=True)
class Field:
    """A form field as submitted, with its error."""

    name: str
    value: str
    error: str


def form(data: Mapping[str, Any], errors: Mapping[str, str]) -> dict[str, Field]:
    """Return the form fields by name. Filters that only links have are converted to fields of the form.

    A single iteration becomes a range of one, and `success` an outcome.
    """
    remaining = dict(errors)
    typed = {field.name: submitted(data, field.name) for field in fields(Filters)} | {
        "group_number": submitted(data, "group_number")
    }
    del typed["group"]
    if iteration := typed.pop("iteration"):
        typed["iteration_min"] = typed["iteration_min"] or iteration
        typed["iteration_max"] = typed["iteration_max"] or iteration
        if "iteration" in remaining:
            remaining["iteration_min"] = remaining.pop("iteration")
    solved = typed.pop("success").lower()
    if solved and "success" not in remaining:
        typed["outcome"] = typed["outcome"] or ("success" if solved in {"yes", "1", "true", "on"} else "failed")
    elif "success" in remaining:
        remaining["outcome"] = remaining.pop("success")
    return {name: Field(name, value, remaining.get(name, "")) for name, value in typed.items()}


RANGES = {
    "iteration": "iteration",
    "reward": "reward",
    "turns": "turns",
    "actions": "actions",
    "tokens": "tokens",
    "truth": "% of claims true",
}
_CHOICES: dict[tuple[str, Any], str] = {
    ("kept", True): "kept by the filter",
    ("kept", False): "dropped by the filter",
    ("alarm", True): "inside alarms",
    ("alarm", False): "outside alarms",
    ("success", True): "solved",
    ("success", False): "failed",
    ("starred", True): "starred",
    ("starred", False): "not starred",
    ("format", "valid"): "format valid throughout",
    ("format", "broken"): "format broken",
    ("split", "train"): "training",
    ("split", "eval"): "evaluation",
    ("claims", "false"): "a false claim",
    ("claims", "true"): "all claims true",
    ("claims", "none"): "no claims",
    **{("mark", name): f"worst mark: {label.lower()}" for name, label in MARKS.items()},
}


_DESCRIBED: dict[str, Callable[[Any], str]] = {
    "reason": lambda reason: END_REASONS[reason],
    "training_use": lambda use: TRAINING_USES[use].label.lower(),
    "break_turn": "lost at turn {}".format,
    "mistake_turn": "first mistake at turn {}".format,
    "outcome": lambda outcome: OUTCOMES[outcome].removeprefix("Failed: ").lower(),
    "text": "contains {}".format,
    "pattern": "matches {}".format,
    "group": lambda group: f"group {group + 1}",
    **{name: (name + " {}").format for name in ("iteration", "environment", "suite", "tag")},
}
"""Descriptions of filters by value."""


def active_filters(filters: Filters) -> list[tuple[str, str]]:
    """Return the description of each active filter, and the query string without it."""
    return [(text, filters.query(**changes)) for text, changes in _descriptions(filters.active())]


def _descriptions(active: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each description with the changes of filters that remove it."""
    for name in RANGES:
        low, high = active.get(f"{name}_min"), active.get(f"{name}_max")
        if low is not None or high is not None:
            yield f"{RANGES[name]} {_range(low, high)}", {f"{name}_min": None, f"{name}_max": None}
    for name, value in active.items():
        if (name, value) in _CHOICES:
            yield _CHOICES[name, value], {name: None}
        elif name == "false_claim_kinds":
            for kind in value:
                others = tuple(other for other in value if other != kind)
                yield f"false: {CLAIM_KINDS[kind]}", {name: others or None}
        elif name in _DESCRIBED:
            yield _DESCRIBED[name](value), {name: None}


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"≥ {_figure(low)}" if low is not None else f"≤ {_figure(high or 0)}"
    return _figure(low) if low == high else f"{_figure(low)} to {_figure(high)}"


def _figure(value: float) -> str:
    return f"{value:,}".replace("-", "−") if isinstance(value, int) else f"{value:g}".replace("-", "−")


def facts_text(counts: ResultCounts) -> str:
    """Return a summary, e.g. “4,096 found · 56.4% solved · mean reward +4.92”, without unknown parts."""
    if counts.more:
        return f"More than {counts.found:,} found · narrow the filters to see their results"
    parts = [f"{counts.found:,} found"]
    if counts.share is not None:
        parts.append(f"{formatting.percent(counts.share)} solved")
    if counts.mean is not None:
        parts.append(f"mean reward {formatting.signed(counts.mean)}")
    return " · ".join(parts)
