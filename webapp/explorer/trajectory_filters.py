"""Filters of the trajectory explorer: parsing from a query string, and the queryset."""

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


class _InvalidFilter(ValueError):
    """A value that is not a valid filter; the message is shown beside the field."""


def _whole(text: str) -> int:
    cleaned = text.replace(",", "").replace(" ", "")
    if not (cleaned.isascii() and cleaned.isdecimal()):
        raise _InvalidFilter(f"“{_shortened(text)}” is not a whole number, such as 12.")
    if len(cleaned) > 10 or int(cleaned) > MAX_NUMBER:
        raise _InvalidFilter(f"That is too large: at most {MAX_NUMBER:,}.")
    return int(cleaned)


def _real(text: str) -> float:
    try:
        value = float(text.replace("−", "-"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _InvalidFilter(f"“{_shortened(text)}” is not a number, such as 2.5 or −1.")
    return value


def _yes_or_no(text: str) -> bool:
    if text.lower() in _YES | _NO:
        return text.lower() in _YES
    raise _InvalidFilter(f"“{_shortened(text)}” is neither yes nor no.")


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in choices:
            return text
        raise _InvalidFilter(f"“{_shortened(text)}” is not one of {', '.join(choices)}.")

    return read


def _name(text: str) -> str:
    if len(text) > 100 or "\0" in text:
        raise _InvalidFilter("That is too long for a name: at most 100 characters.")
    return text


def _words(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        raise _InvalidFilter(f"That is too long: at most {MAX_TEXT_LENGTH} characters.")
    if "\0" in text or not any(sign.isalnum() for sign in text):
        raise _InvalidFilter("Write at least one word or number: punctuation is not in the index.")
    return text


def _sort(text: str) -> str:
    if text.removeprefix("-") in SORTS:
        return text
    raise _InvalidFilter(
        f"Cannot sort by “{_shortened(text)}”. Choose one of {', '.join(SORTS)}, with - for descending."
    )


def _shortened(text: str) -> str:
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
    """Filters of trajectories; None = no restriction. Ranges include both ends.

    `outcome` is one of OUTCOMES, `success` distinguishes solved from failed only. `kept`: kept by the group filter.
    `alarm`: in an iteration between a watch or trapped alarm and the next healthy state. `text` is PostgreSQL's
    websearch syntax over thought and answer: words, "a phrase", or, -without. `starred` and `tag` are annotations of
    the team: remove them for readers outside it (`without_annotations`).
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
        """The filters in a query string, and the errors of invalid fields by name.

        Invalid fields are ignored, the others apply. Other names in the query string are ignored without an error.
        """
        values: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for name, read in _READERS.items():
            text = str(data.get(name) or "").strip()
            if not text:
                continue
            try:
                values[name] = read(text)
            except _InvalidFilter as error:
                errors[name] = str(error)
        for name in ("iteration", "reward", "turns", "actions", "tokens"):
            low, high = values.get(f"{name}_min"), values.get(f"{name}_max")
            if low is not None and high is not None and low > high:
                del values[f"{name}_max"]
                errors[f"{name}_max"] = f"Must be at least {low:,}; ignored."
        return cls(**values), errors

    def without_annotations(self) -> Filters:
        """The same filters without stars and tags, which are hidden from readers outside the team."""
        return replace(self, starred=None, tag=None)

    def active(self) -> dict[str, Any]:
        """Active filters by name, without the order."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "sort"}
        return {name: value for name, value in values.items() if value is not None}

    def query(self, **changes: Any) -> str:
        """The shortest equivalent query string, with some values changed (None removes one)."""
        values = self.active() | ({"sort": self.sort} if self.sort != DEFAULT_SORT else {}) | changes
        return urlencode({name: _query_value(value) for name, value in values.items() if value is not None})


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def filter_trajectories(runs: Run | QuerySet[Run], filters: Filters) -> TrajectoryQuerySet:
    """Trajectories of the run or runs that match, unordered, without superseded ones.

    Callers check that the reader may see the runs.
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
    active = filters.active()
    conditions = [Q(**{column: active[name]}) for name, column in columns.items() if name in active]
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
    """The text as a full-text query without stemming: "pushes" does not match "push", and code is kept as it is."""
    return SearchQuery(text, config="simple", search_type="websearch")


def windows(alarms: list[tuple[int, str]]) -> list[tuple[int, int | None]]:
    """Iterations inside alarms as (first, end exclusive or None), from (iteration, state) in journal order."""
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
    """(iteration, state) of the run's alarms in journal order, without those undone by a rewind."""
    return list(run.alarms.filter(undone=False).order_by("seq").values_list("iteration", "state"))


def _alarmed(runs: Run | QuerySet[Run]) -> Q:
    within = Q(run=runs) if isinstance(runs, Run) else Q(run__in=runs)
    by_run: dict[int, list[tuple[int, str]]] = {}
    for run, iteration, state in (
        Alarm.objects.filter(within, undone=False).order_by("run", "seq").values_list("run", "iteration", "state")
    ):
        by_run.setdefault(run, []).append((iteration, state))
    result = Q(pk__in=[])
    for run, alarms in by_run.items():
        for start, end in windows(alarms):
            inside = Q(run=run, iteration__gte=start)
            result |= inside if end is None else inside & Q(iteration__lt=end)
    return result
