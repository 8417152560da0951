"""What the explorer's table and form show: rows with an outcome, a bar and a few words, fields, filters in plain words.

What is found and in which order is decided in explorer.py and keyset.py.
"""

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
"""Around found words on their way to the template: private-use characters, no markup that would have to be trusted."""
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
RISING_FIRST = {"place", "environment", "outcome"}


@dataclass(frozen=True)
class OutcomeLabel:
    """What became of a trajectory in one word, with a sign of its own for each."""

    word: str
    sign: str
    tone: str = ""


def outcome(trajectory: Trajectory) -> OutcomeLabel:
    """The most telling word."""
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
    """A line of the table. The bar lies between −100 and 100; `said` are pieces of text and whether they were found."""

    trajectory: Trajectory
    address: str
    outcome: OutcomeLabel
    bar_start: float
    bar_length: float
    said: list[tuple[str, bool]]


def rows(items: Sequence[Trajectory], filters: Filters) -> list[TrajectoryRow]:
    """The page's trajectories (with their groups) as the table shows them: one more query for what they said."""
    said = _found_words(items, filters.text) if filters.text else _first_words(items)
    largest = max((abs(item.total_reward) for item in items), default=0.0) or 1.0
    address = reverse("trajectory", args=["_"]).removesuffix("_")  # once: a look-up for each row takes a query's time
    result = []
    for item in items:
        length = round(100 * item.total_reward / largest, 1)
        shown = said.get(item.pk, [])
        result.append(TrajectoryRow(item, address + item.slug, outcome(item), min(0.0, length), abs(length), shown))
    return result


def _first_words(items: Sequence[Trajectory]) -> dict[int, list[tuple[str, bool]]]:
    turns = Turn.objects.filter(trajectory__in=[item.pk for item in items], number=0)
    texts = turns.values_list("trajectory_id", Left(KT("event__thought"), FIRST_WORDS + 1))
    return {pk: [(_shortened(text or ""), False)] for pk, text in texts}


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= FIRST_WORDS else text[:FIRST_WORDS].rsplit(" ", 1)[0] + " …"


def _found_words(items: Sequence[Trajectory], text: str) -> dict[int, list[tuple[str, bool]]]:
    query = search(text)
    first = (
        Turn.objects.filter(trajectory__in=[item.pk for item in items], words=query)
        .order_by("trajectory", "number")
        .distinct("trajectory")
        .values("pk")
    )
    told = Concat(
        Left(Coalesce(KT("event__thought"), Value("")), MAX_SEARCHED_LENGTH),
        Value(" → "),
        Left(Coalesce(KT("event__answer"), Value("")), MAX_SEARCHED_LENGTH),
    )
    headline = SearchHeadline(
        told, query, config="simple", start_sel=MARK, stop_sel=UNMARK, max_words=22, min_words=9, max_fragments=1
    )
    turns = Turn.objects.filter(pk__in=first).values_list("trajectory_id", "number", headline)
    return {pk: [(f"Turn {number + 1}: ", False), *pieces(text)] for pk, number, text in turns}


def pieces(headline: str) -> list[tuple[str, bool]]:
    """A headline cut at its marks: (text, whether it was looked for)."""
    result = []
    for part in headline.split(MARK):
        marked, stop, plain = part.partition(UNMARK)
        if stop:
            result += [(marked, True), (plain, False)]
        else:
            result.append((part, False))
    return [(text, found) for text, found in result if text]


@dataclass(frozen=True)
class Column:
    """A head of the table: where a click leads, and how it is sorted now ("ascending", "descending" or "")."""

    name: str
    title: str
    kind: str
    sorted: str
    query: str


def columns(filters: Filters, several_environments: bool) -> list[Column]:
    """The table's heads. A second click turns the order round."""
    result = []
    for name, title, kind in COLUMNS:
        if kind == "several" and not several_environments:
            continue
        now = {name: "ascending", f"-{name}": "descending"}.get(filters.sort, "")
        rising = now == "descending" or (not now and name in RISING_FIRST)
        sort = name if rising else f"-{name}"
        query = filters.query(sort=None if sort == DEFAULT_SORT else sort)
        result.append(Column(name, title, kind, now, query))
    return result


@dataclass(frozen=True)
class Field:
    """A field of the form as it was filled in, and what is wrong with it."""

    name: str
    value: str
    error: str


def form(data: Mapping[str, Any], errors: Mapping[str, str]) -> dict[str, Field]:
    """Every field by name. One iteration is shown as a range of one, success as an outcome."""
    wrong = dict(errors)
    typed = {field.name: str(data.get(field.name) or "") for field in fields(Filters)}
    if one := typed.pop("iteration"):
        typed["iteration_min"] = typed["iteration_min"] or one
        typed["iteration_max"] = typed["iteration_max"] or one
        if "iteration" in wrong:
            wrong["iteration_min"] = wrong.pop("iteration")
    solved = typed.pop("success").lower()
    if solved and "success" not in wrong:
        typed["outcome"] = typed["outcome"] or ("success" if solved in {"yes", "1", "true", "on"} else "failed")
    elif "success" in wrong:
        wrong["outcome"] = wrong.pop("success")
    return {name: Field(name, value, wrong.get(name, "")) for name, value in typed.items()}


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


def chosen(filters: Filters) -> list[tuple[str, str]]:
    """Each filter in plain words, and the query string without it."""
    return [(told, filters.query(**dict.fromkeys(names))) for told, names in _told(filters.asked())]


def _told(asked: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for name in RANGES:
        low, high = asked.get(f"{name}_min"), asked.get(f"{name}_max")
        if low is not None or high is not None:
            yield f"{RANGES[name]} {_range(low, high)}", [f"{name}_min", f"{name}_max"]
    for name, value in asked.items():
        if (name, value) in _CHOICES:
            yield _CHOICES[name, value], [name]
        elif name == "outcome":
            yield OUTCOMES[value].removeprefix("Failed: ").lower(), [name]
        elif name == "text":
            yield f"says {value}", [name]
        elif name in ("iteration", "group", "environment", "suite", "tag"):
            yield f"{name} {value}", [name]


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"≥ {_figure(low)}" if low is not None else f"≤ {_figure(high or 0)}"
    return _figure(low) if low == high else f"{_figure(low)} to {_figure(high)}"


def _figure(value: float) -> str:
    return f"{value:,}".replace("-", "−") if isinstance(value, int) else f"{value:g}".replace("-", "−")


def facts_words(found: int, share: float | None, mean: float | None, more: bool) -> str:
    """As in “4,096 found · 56.4 % solved · mean reward +4.92”."""
    if more:
        return f"More than {found:,} found · narrow the filters to see how they did"
    parts = [f"{found:,} found"]
    if share is not None and mean is not None:
        parts += [f"{formatting.percent(share)} solved", f"mean reward {formatting.signed(mean)}"]
    return " · ".join(parts)
