"""Template data of the explorer: table rows and columns, form fields, and descriptions of the active filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from django.contrib.postgres.search import SearchHeadline
from django.db.models import Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Concat, Left
from django.urls import reverse

from webapp.core import formatting
from webapp.explorer.trajectory_filters import DEFAULT_SORT, OUTCOMES, Filters, search
from webapp.trajectories.models import MAX_SEARCHED_LENGTH, Trajectory, Turn

FIRST_WORDS = 110
MARK, UNMARK = "\ue000", "\ue001"
"""Delimiters of matched words: private-use characters, so that no database text is trusted as markup."""
COLUMNS = (
    ("iteration", "Iteration", "number"),
    ("place", "Group · member", ""),
    ("environment", "Environment", "several"),
    ("outcome", "Outcome", ""),
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
    """Outcome of a trajectory in one word, with its sign."""

    word: str
    sign: str
    tone: str = ""


def outcome(trajectory: Trajectory) -> OutcomeLabel:
    """The most specific outcome that applies."""
    match trajectory.status:
        case Trajectory.Status.SUCCESS:
            return OutcomeLabel("solved", "✓", "good")
        case Trajectory.Status.PLAYING:
            return OutcomeLabel("playing", "▸")
        case Trajectory.Status.WAITING:
            return OutcomeLabel("waiting", "·")
    if trajectory.error:
        return OutcomeLabel("error", "!", "bad")
    if trajectory.end == "truncated":
        return OutcomeLabel("cut off", "✂", "bad")
    if trajectory.end == "interrupted":
        return OutcomeLabel("interrupted", "‖")
    return OutcomeLabel("stuck", "⊘", "bad") if trajectory.lost_at else OutcomeLabel("failed", "✗", "bad")


@dataclass(frozen=True)
class TrajectoryRow:
    """A row of the table. The bar lies between −100 and 100; `excerpt` are pieces of text and whether they matched."""

    trajectory: Trajectory
    address: str
    outcome: OutcomeLabel
    bar_start: float
    bar_length: float
    excerpt: list[tuple[str, bool]]


def rows(items: Sequence[Trajectory], filters: Filters) -> list[TrajectoryRow]:
    """Table rows of the page's trajectories (with their groups); one more query for the excerpts."""
    excerpts = _matches(items, filters.text) if filters.text else _first_words(items)
    largest = max((abs(item.total_reward) for item in items), default=0.0) or 1.0
    address = reverse("trajectory", args=["_"]).removesuffix("_")  # once: 50 look-ups take as long as a query
    result = []
    for item in items:
        length = round(100 * item.total_reward / largest, 1)
        excerpt = excerpts.get(item.pk, [])
        result.append(TrajectoryRow(item, address + item.slug, outcome(item), min(0.0, length), abs(length), excerpt))
    return result


def _first_words(items: Sequence[Trajectory]) -> dict[int, list[tuple[str, bool]]]:
    turns = Turn.objects.filter(trajectory__in=[item.pk for item in items], number=0)
    texts = turns.values_list("trajectory_id", Left(KT("event__thought"), FIRST_WORDS + 1))
    return {pk: [(_shortened(text or ""), False)] for pk, text in texts}


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= FIRST_WORDS else text[:FIRST_WORDS].rsplit(" ", 1)[0] + " …"


def _matches(items: Sequence[Trajectory], text: str) -> dict[int, list[tuple[str, bool]]]:
    query = search(text)
    first = (
        Turn.objects.filter(trajectory__in=[item.pk for item in items], words=query)
        .order_by("trajectory", "number")
        .distinct("trajectory")
        .values("pk")
    )
    document = Concat(
        Left(Coalesce(KT("event__thought"), Value("")), MAX_SEARCHED_LENGTH),
        Value(" → "),
        Left(Coalesce(KT("event__answer"), Value("")), MAX_SEARCHED_LENGTH),
    )
    headline = SearchHeadline(
        document, query, config="simple", start_sel=MARK, stop_sel=UNMARK, max_words=22, min_words=9, max_fragments=1
    )
    turns = Turn.objects.filter(pk__in=first).values_list("trajectory_id", "number", headline)
    return {pk: [(f"Turn {number + 1}: ", False), *pieces(text)] for pk, number, text in turns}


def pieces(headline: str) -> list[tuple[str, bool]]:
    """A headline split at its marks: (text, whether it matched)."""
    result = []
    for part in headline.split(MARK):
        marked, stop, plain = part.partition(UNMARK)
        if stop:
            result += [(marked, True), (plain, False)]
        else:
            result.append((part, False))
    return [(text, matched) for text, matched in result if text]


@dataclass(frozen=True)
class Column:
    """A column heading: the query of a click, and the current order ("ascending", "descending" or "")."""

    name: str
    title: str
    kind: str
    sorted: str
    query: str


def columns(filters: Filters, several_environments: bool) -> list[Column]:
    """Column headings of the table. A second click reverses the order."""
    result = []
    for name, title, kind in COLUMNS:
        if kind == "several" and not several_environments:
            continue
        order = {name: "ascending", f"-{name}": "descending"}.get(filters.sort, "")
        ascending = order == "descending" or (not order and name in ASCENDING_FIRST)
        sort = name if ascending else f"-{name}"
        query = filters.query(sort=None if sort == DEFAULT_SORT else sort)
        result.append(Column(name, title, kind, order, query))
    return result


@dataclass(frozen=True)
class Field:
    """A form field as submitted, with its error."""

    name: str
    value: str
    error: str


def form(data: Mapping[str, Any], errors: Mapping[str, str]) -> dict[str, Field]:
    """Form fields by name. A single iteration becomes a range of one, `success` an outcome."""
    remaining = dict(errors)
    typed = {field.name: str(data.get(field.name) or "") for field in fields(Filters)}
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


RANGES = {"iteration": "iteration", "reward": "reward", "turns": "turns", "actions": "actions", "tokens": "tokens"}
_CHOICES = {
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
}


def active_filters(filters: Filters) -> list[tuple[str, str]]:
    """Description of each active filter, and the query string without it."""
    return [(text, filters.query(**dict.fromkeys(names))) for text, names in _descriptions(filters.active())]


def _descriptions(active: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for name in RANGES:
        low, high = active.get(f"{name}_min"), active.get(f"{name}_max")
        if low is not None or high is not None:
            yield f"{RANGES[name]} {_range(low, high)}", [f"{name}_min", f"{name}_max"]
    for name, value in active.items():
        if (name, value) in _CHOICES:
            yield _CHOICES[name, value], [name]
        elif name == "outcome":
            yield OUTCOMES[value].removeprefix("Failed: ").lower(), [name]
        elif name == "text":
            yield f"contains {value}", [name]
        elif name in ("iteration", "group", "environment", "suite", "tag"):
            yield f"{name} {value}", [name]


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"≥ {_figure(low)}" if low is not None else f"≤ {_figure(high or 0)}"
    return _figure(low) if low == high else f"{_figure(low)} to {_figure(high)}"


def _figure(value: float) -> str:
    return f"{value:,}".replace("-", "−") if isinstance(value, int) else f"{value:g}".replace("-", "−")


def facts_words(found: int, share: float | None, mean: float | None, more: bool) -> str:
    """Summary line, e.g. “4,096 found · 56.4 % solved · mean reward +4.92”."""
    if more:
        return f"More than {found:,} found · narrow the filters to see their results"
    parts = [f"{found:,} found"]
    if share is not None and mean is not None:
        parts += [f"{formatting.percent(share)} solved", f"mean reward {formatting.signed(mean)}"]
    return " · ".join(parts)
