"""Finding trajectories: the filters of the explorer, read from a query string and applied to the tables.

Order and pages are in keyset.py, counts in explorer_counts.py; what a page shows of it is explorer_views.py's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib.postgres.search import SearchQuery
from django.db.models import Exists, OuterRef, Q, QuerySet

from webapp.annotations.queries import starred, tagged
from webapp.runs.models import Alarm, Run
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet, Turn
from webapp.trajectories.pagination import SORTS, BadCursor, Page, page

__all__ = ["OUTCOMES", "SORTS", "BadCursor", "Filters", "Page", "filter_trajectories", "page"]

OUTCOMES = {
    "success": "Solved",
    "failed": "Failed",
    "lost": "Failed: got stuck",
    "truncated": "Failed: cut off",
    "error": "Failed: an error",
    "playing": "Playing",
    "waiting": "Waiting",
}
FORMATS = {"valid": "Valid throughout", "broken": "Broken at least once"}
ALARMS = ("watch", "trapped")
MAX_NUMBER = 2_147_483_647
MAX_TEXT_LENGTH = 200
DEFAULT_SORT = "-iteration"
_YES, _NO = {"yes", "1", "true", "on"}, {"no", "0", "false", "off"}


class _Wrong(ValueError):
    """What was written cannot be a filter; the message tells the reader why."""


def _whole(text: str) -> int:
    cleaned = text.replace(",", "").replace(" ", "")
    if not (cleaned.isascii() and cleaned.isdecimal()):
        raise _Wrong(f"“{_short(text)}” is not a whole number, such as 12.")
    if len(cleaned) > 10 or int(cleaned) > MAX_NUMBER:
        raise _Wrong(f"That is too large: at most {MAX_NUMBER:,}.")
    return int(cleaned)


def _real(text: str) -> float:
    try:
        value = float(text.replace("−", "-"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _Wrong(f"“{_short(text)}” is not a number, such as 2.5 or −1.")
    return value


def _yes_or_no(text: str) -> bool:
    if text.lower() in _YES | _NO:
        return text.lower() in _YES
    raise _Wrong(f"“{_short(text)}” is neither yes nor no.")


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in choices:
            return text
        raise _Wrong(f"“{_short(text)}” is none of {', '.join(choices)}.")

    return read


def _name(text: str) -> str:
    if len(text) > 100 or "\0" in text:
        raise _Wrong("That is too long for a name: at most 100 characters.")
    return text


def _words(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        raise _Wrong(f"That is too long: at most {MAX_TEXT_LENGTH} characters.")
    if "\0" in text or not any(sign.isalnum() for sign in text):
        raise _Wrong("Write at least one word or number: signs alone are not in the index.")
    return text


def _sort(text: str) -> str:
    if text.removeprefix("-") in SORTS:
        return text
    raise _Wrong(f"There is no order by “{_short(text)}”. Choose one of {', '.join(SORTS)}, with - for descending.")


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:23] + "…"


_READERS: dict[str, Callable[[str], Any]] = {
    "iteration": _whole,
    "iteration_min": _whole,
    "iteration_max": _whole,
    "environment": _name,
    "split": _one_of("train", "eval"),
    "suite": _name,
    "group": _whole,
    "outcome": _one_of(*OUTCOMES),
    "success": _yes_or_no,
    "reward_min": _real,
    "reward_max": _real,
    "turns_min": _whole,
    "turns_max": _whole,
    "actions_min": _whole,
    "actions_max": _whole,
    "tokens_min": _whole,
    "tokens_max": _whole,
    "format": _one_of(*FORMATS),
    "kept": _yes_or_no,
    "alarm": _yes_or_no,
    "text": _words,
    "starred": _yes_or_no,
    "tag": _name,
    "sort": _sort,
}


@dataclass(frozen=True)
class Filters:
    """What is asked for; everything left out asks for nothing. Ranges include their ends.

    `outcome` is one of OUTCOMES, `success` only tells solved from failed. `kept` is what the update learned from,
    `alarm` the iterations from a watch or trapped alarm until the run is healthy again. `text` is PostgreSQL's
    websearch syntax over thought and answer: words, "a phrase", or, -without. `starred` and `tag` are the team's
    annotations: whoever is not in the team must not be offered them (`without_annotations`).
    """

    iteration: int | None = None
    iteration_min: int | None = None
    iteration_max: int | None = None
    environment: str | None = None
    split: str | None = None
    suite: str | None = None
    group: int | None = None
    outcome: str | None = None
    success: bool | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    turns_min: int | None = None
    turns_max: int | None = None
    actions_min: int | None = None
    actions_max: int | None = None
    tokens_min: int | None = None
    tokens_max: int | None = None
    format: str | None = None
    kept: bool | None = None
    alarm: bool | None = None
    text: str | None = None
    starred: bool | None = None
    tag: str | None = None
    sort: str = DEFAULT_SORT

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> tuple[Filters, dict[str, str]]:
        """The filters in a query string, and for each field that cannot be used what is wrong with it.

        What cannot be used is left out, the rest holds. Names that are no filters are somebody else's.
        """
        values: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for name, read in _READERS.items():
            text = str(data.get(name) or "").strip()
            if not text:
                continue
            try:
                values[name] = read(text)
            except _Wrong as wrong:
                errors[name] = str(wrong)
        for name in ("iteration", "reward", "turns", "actions", "tokens"):
            low, high = values.get(f"{name}_min"), values.get(f"{name}_max")
            if low is not None and high is not None and low > high:
                del values[f"{name}_max"]
                errors[f"{name}_max"] = f"This end lies below the other one, {low:,}. It was left out."
        return cls(**values), errors

    def without_annotations(self) -> Filters:
        """The same for readers outside the team, who are told nothing of its stars and tags."""
        return replace(self, starred=None, tag=None)

    def asked(self) -> dict[str, Any]:
        """The filters that are set, by name, without the order."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "sort"}
        return {name: value for name, value in values.items() if value is not None}

    def query(self, **changes: Any) -> str:
        """The shortest query string that says the same, with some values changed (None leaves one out)."""
        values = self.asked() | ({"sort": self.sort} if self.sort != DEFAULT_SORT else {}) | changes
        return urlencode({name: _spelled(value) for name, value in values.items() if value is not None})


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def filter_trajectories(runs: Run | QuerySet[Run], filters: Filters) -> TrajectoryQuerySet:
    """The trajectories of the run or runs that the filters ask for, in no order, without those that were replaced.

    Whether the reader may see those runs is decided by whoever gives them.
    """
    within = Q(run=runs) if isinstance(runs, Run) else Q(run__in=runs)
    result = Trajectory.objects.current().filter(within, *_conditions(filters))
    if filters.alarm is not None:
        alarmed = _alarmed(runs)
        result = result.filter(alarmed) if filters.alarm else result.exclude(alarmed)
    return result


def _conditions(filters: Filters) -> list[Q]:
    columns = {
        "iteration": "iteration",
        "iteration_min": "iteration__gte",
        "iteration_max": "iteration__lte",
        "split": "split",
        "environment": "group__environment",
        "suite": "group__suite",
        "group": "group__number",
        "reward_min": "total_reward__gte",
        "reward_max": "total_reward__lte",
        "turns_min": "turn_count__gte",
        "turns_max": "turn_count__lte",
        "actions_min": "action_count__gte",
        "actions_max": "action_count__lte",
        "tokens_min": "token_count__gte",
        "tokens_max": "token_count__lte",
        "kept": "group__kept",
    }
    asked = filters.asked()
    conditions = [Q(**{column: asked[name]}) for name, column in columns.items() if name in asked]
    if filters.outcome is not None:
        conditions.append(_OUTCOME[filters.outcome])
    if filters.success is not None:
        conditions.append(Q(status=Trajectory.Status.SUCCESS if filters.success else Trajectory.Status.FAILED))
    if filters.format is not None:
        conditions.append(Q(format_error=filters.format == "broken"))
    if filters.text is not None:
        conditions.append(Q(Exists(Turn.objects.filter(trajectory=OuterRef("pk"), words=search(filters.text)))))
    if filters.starred is not None:
        conditions.append(starred() if filters.starred else ~starred())
    if filters.tag is not None:
        conditions.append(tagged(filters.tag))
    return conditions


_OUTCOME = {
    "success": Q(status=Trajectory.Status.SUCCESS),
    "failed": Q(status=Trajectory.Status.FAILED),
    "lost": Q(status=Trajectory.Status.FAILED, lost_at__isnull=False),
    "truncated": Q(status=Trajectory.Status.FAILED, end="truncated"),
    "error": ~Q(error=""),
    "playing": Q(status=Trajectory.Status.PLAYING),
    "waiting": Q(status=Trajectory.Status.WAITING),
}


def search(text: str) -> SearchQuery:
    """The text as a full-text query. Words are taken as they stand: "pushes" is not "push", and code survives."""
    return SearchQuery(text, config="simple", search_type="websearch")


def windows(alarms: list[tuple[int, str]]) -> list[tuple[int, int | None]]:
    """Iterations inside alarms, from … up to but without …, from (iteration, state) in the order they were told."""
    result: list[tuple[int, int | None]] = []
    since: int | None = None
    for iteration, state in alarms:
        if state in ALARMS:
            since = iteration if since is None else since
        elif since is not None:
            if iteration > since:
                result.append((since, iteration))
            since = None
    if since is not None:
        result.append((since, None))
    return result


def alarms_of(run: Run) -> list[tuple[int, str]]:
    """(iteration, state), as the watch told them; those that a rewind undid are left out."""
    return list(run.alarms.filter(undone=False).order_by("seq").values_list("iteration", "state"))


def _alarmed(runs: Run | QuerySet[Run]) -> Q:
    within = Q(run=runs) if isinstance(runs, Run) else Q(run__in=runs)
    told: dict[int, list[tuple[int, str]]] = {}
    for run, iteration, state in (
        Alarm.objects.filter(within, undone=False).order_by("run", "seq").values_list("run", "iteration", "state")
    ):
        told.setdefault(run, []).append((iteration, state))
    result = Q(pk__in=[])
    for run, alarms in told.items():
        for start, end in windows(alarms):
            inside = Q(run=run, iteration__gte=start)
            result |= inside if end is None else inside & Q(iteration__lt=end)
    return result
