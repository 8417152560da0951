"""Filters of the trajectory explorer: parsing from a query string, and the queryset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib.postgres.search import SearchQuery, SearchVector
from django.db.models import Case, Exists, ExpressionWrapper, F, FloatField, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import NullIf
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual
from django.http import QueryDict

from webapp.annotations.queries import starred, tagged
from webapp.explorer import regular_expressions
from webapp.explorer.filter_values import MARKS, READERS, InvalidFilter
from webapp.runs.models import Alarm, Run
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet, Turn

ALARMS = ("watch", "trapped")
DEFAULT_SORT = "-iteration"
SHOWN_ONLY = {"sort", "hide", "view"}
"""Names that change the appearance of a list, not what the other filters find."""
MULTIPLE = {"false_claim_kinds"}
"""Filters with several values, in one text or in repeated form fields."""


@dataclass(frozen=True)
class Filters:
    """Filters of trajectories; None = no restriction. Ranges include both ends, and exclude unknown values.

    `outcome` is one of OUTCOMES, `success` distinguishes solved from failed only. `reason` is one of END_REASONS,
    `break_turn` the turn at which it was lost, from 1, `mistake_turn` that of its first mistake or blunder. `mark` is
    one of MARKS. `claims` is one of CLAIMS, over the thoughts of all turns, `false_claim_kinds` are kinds of claims of
    which one was false, and `truth` the share of its claims that are true, in percent. `kept`: kept by the group
    filter. `training_use` is one of TRAINING_USES of trainer.metrics.training_use. `alarm`: in an iteration between a
    watch or trapped alarm and the next healthy state. `text` is PostgreSQL's websearch syntax over thought and answer
    of a turn, or over the comment on the attempt: words, "a phrase", or, -without. `pattern` is a regular expression
    that the response of a turn matches somewhere. `hide`: columns of the list that are hidden, with spaces. `view` is
    the saved view or scanner whose labels are shown (open_view.py). `starred` and `tag` are annotations of the team:
    remove them, and `view`, for readers outside it (`without_annotations`).

    `group` counts from 0. Query strings have it as `group_number`, from 1.
    """

    iteration: int | None = None
    iteration_min: int | None = None
    iteration_max: int | None = None
    environment: str | None = None
    split: str | None = None
    suite: str | None = None
    group: int | None = None
    outcome: str | None = None
    reason: str | None = None
    break_turn: int | None = None
    mark: str | None = None
    mistake_turn: int | None = None
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
    claims: str | None = None
    false_claim_kinds: tuple[str, ...] | None = None
    truth_min: float | None = None
    truth_max: float | None = None
    kept: bool | None = None
    training_use: str | None = None
    alarm: bool | None = None
    text: str | None = None
    pattern: str | None = None
    starred: bool | None = None
    tag: str | None = None
    sort: str = DEFAULT_SORT
    hide: str = ""
    view: str = ""

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> tuple[Filters, dict[str, str]]:
        """Return the filters in a query string, and the errors of invalid fields by name.

        Invalid fields are ignored, the others apply. Other names in the query string are ignored without an error.
        """
        values: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for name, read in READERS.items():
            text = submitted(data, name).strip()
            if not text:
                continue
            try:
                values[name] = read(text)
            except InvalidFilter as error:
                errors[name] = str(error)
        if (number := values.pop("group_number", None)) is not None:
            values["group"] = number - 1
        for name in ("iteration", "reward", "turns", "actions", "tokens", "truth"):
            low, high = values.get(f"{name}_min"), values.get(f"{name}_max")
            if low is not None and high is not None and low > high:
                del values[f"{name}_max"]
                errors[f"{name}_max"] = f"Must be {low:,} or more; ignored."
        return cls(**values), errors

    def without_annotations(self) -> Filters:
        """Return the same filters without stars, tags and labels, which are hidden from readers outside the team."""
        return replace(self, starred=None, tag=None, view="")

    def active(self) -> dict[str, Any]:
        """Active filters by name, without the order and hidden columns."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in SHOWN_ONLY}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def reads_turns(self) -> bool:
        """True if the filters read the turns of each trajectory, so that only few results are counted."""
        return self.text is not None or self.pattern is not None

    def query(self, **changes: Any) -> str:
        """Return the shortest equivalent query string, with some values changed (None removes one)."""
        values = self.active() | ({"sort": self.sort} if self.sort != DEFAULT_SORT else {})
        values |= {name: value for name in ("hide", "view") if (value := getattr(self, name))} | changes
        if (group := values.pop("group", None)) is not None:
            values["group_number"] = group + 1
        return urlencode({name: _query_value(value) for name, value in values.items() if value is not None})


def read_query(query: str) -> Filters:
    """Return the filters of a stored query string, without what is no longer valid."""
    return Filters.parse(QueryDict(query))[0]


def submitted(data: Mapping[str, Any], name: str) -> str:
    """Return a field of a query string as text, with all values of a repeated field that may have several."""
    if name in MULTIPLE and isinstance(data, QueryDict):
        return " ".join(data.getlist(name))
    return str(data.get(name) or "")


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(value)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def filter_trajectories(runs: Run | QuerySet[Run], filters: Filters) -> TrajectoryQuerySet:
    """Return matching trajectories of the run or runs, unordered, without superseded ones.

    Callers check that the reader may see the runs.
    """
    within = Q(run=runs) if isinstance(runs, Run) else Q(run__in=runs)
    result = Trajectory.objects.current().filter(within, *_conditions(filters))
    if filters.alarm is not None:
        alarmed = _alarmed(runs)
        result = result.filter(alarmed) if filters.alarm else result.exclude(alarmed)
    return result


_COLUMNS = {
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
    "reason": "end_reason",
    "kept": "group__kept",
    "training_use": "training_use",
}
"""Filters that compare with a column, and its look-up."""


def _conditions(filters: Filters) -> list[Q]:
    active = filters.active()
    conditions = [Q(**{column: active[name]}) for name, column in _COLUMNS.items() if name in active]
    if filters.reward_min is not None or filters.reward_max is not None:
        conditions.append(Q(rewarded=True))
    conditions += [condition(active[name]) for name, condition in _CONDITIONS.items() if name in active]
    if filters.truth_min is not None or filters.truth_max is not None:
        conditions += _truth(filters.truth_min, filters.truth_max)
    return conditions


def _success(solved: bool) -> Q:
    return Q(status=Trajectory.Status.SUCCESS if solved else Trajectory.Status.FAILED)


def _false_claim_kinds(kinds: tuple[str, ...]) -> Q:
    some = ~Q(false_claim_kinds=[])  # follows from the other; the index, which leaves out the empty ones, needs it
    return Q(some, false_claim_kinds__overlap=list(kinds))


def _text(text: str) -> Q:
    """Return a condition that a turn or the comment on the attempt matches a search."""
    query = search(text)
    commented = Trajectory.objects.alias(words=SearchVector("commentary", config="simple")).filter(words=query)
    return Q(Exists(Turn.objects.filter(trajectory=OuterRef("pk"), words=query))) | Q(pk__in=commented.values("pk"))


def _pattern(pattern: str) -> Q:
    """Return a condition that the response of a turn matches a regular expression."""
    wanted = {"event__response__regex": regular_expressions.as_postgres(pattern)}
    return Q(Exists(Turn.objects.filter(trajectory=OuterRef("pk"), **wanted)))


def known_reward() -> Case:
    """Return an expression for the total reward of a trajectory, NULL if none was recorded."""
    return Case(When(rewarded=True, then=F("total_reward")), output_field=FloatField())


def _truth(low: float | None, high: float | None) -> list[Q]:
    """Return conditions on the percentage of true claims; trajectories without claims do not match."""
    claims = F("true_claims") + F("false_claims")
    share = ExpressionWrapper(F("true_claims") * 100.0 / NullIf(claims, Value(0)), FloatField())
    conditions: list[Q] = []
    if low is not None:
        conditions.append(Q(GreaterThanOrEqual(share, low)))
    if high is not None:
        conditions.append(Q(LessThanOrEqual(share, high)))
    return conditions


CLAIM_CONDITIONS = {
    "false": Q(false_claims__gt=0),
    "true": Q(true_claims__gt=0, false_claims=0),
    "none": Q(true_claims=0, false_claims=0),
}
"""Trajectories with thoughts that were never compared match none of them."""

MARK_CONDITIONS = {
    **{name: Q(worst_mark=Trajectory.WorstMark[name.upper()]) for name in MARKS if name != "unjudged"},
    "unjudged": Q(Q(worst_mark__isnull=True) | Q(worst_mark=Trajectory.WorstMark.UNKNOWN))
    & Q(status__in=Trajectory.ENDED),
}

_OUTCOME = {
    "success": Q(status=Trajectory.Status.SUCCESS),
    "failed": Q(status=Trajectory.Status.FAILED),
    "lost": Q(status=Trajectory.Status.FAILED, lost_at__isnull=False),
    "truncated": Q(status=Trajectory.Status.FAILED, end="truncated"),
    "error": ~Q(error=""),
    "interrupted": Q(status=Trajectory.Status.INTERRUPTED),
    "unknown": Q(status=Trajectory.Status.UNKNOWN),
    "playing": Q(status=Trajectory.Status.PLAYING),
    "waiting": Q(status=Trajectory.Status.WAITING),
}


_CONDITIONS: dict[str, Callable[[Any], Q]] = {
    "outcome": _OUTCOME.__getitem__,
    "success": _success,
    "break_turn": lambda turn: Q(lost_turn=turn - 1),
    "mistake_turn": lambda turn: Q(first_mistake_turn=turn - 1),
    "mark": MARK_CONDITIONS.__getitem__,
    "false_claim_kinds": _false_claim_kinds,
    "format": lambda format: Q(format_error=format == "broken"),
    "claims": CLAIM_CONDITIONS.__getitem__,
    "text": _text,
    "pattern": _pattern,
    "starred": lambda wanted: starred() if wanted else ~starred(),
    "tag": tagged,
}
"""Conditions made of the value of a filter, by its name."""


def search(text: str) -> SearchQuery:
    """Return a full-text query without stemming: "pushes" does not match "push", and code is not changed."""
    return SearchQuery(text, config="simple", search_type="websearch")


def windows(alarms: list[tuple[int, str]]) -> list[tuple[int, int | None]]:
    """Return iterations inside alarms as (first, end exclusive or None), from (iteration, state) in journal order."""
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


def _alarmed(runs: Run | QuerySet[Run]) -> Q:
    within = Q(run=runs) if isinstance(runs, Run) else Q(run__in=runs)
    by_run: dict[int, list[tuple[int, str]]] = {}
    for run, iteration, state in (
        Alarm.objects.filter(within, undone=False).order_by("run", "seq", "pk").values_list("run", "iteration", "state")
    ):
        by_run.setdefault(run, []).append((iteration, state))
    result = Q(pk__in=[])
    for run, alarms in by_run.items():
        for start, end in windows(alarms):
            inside = Q(run=run, iteration__gte=start)
            result |= inside if end is None else inside & Q(iteration__lt=end)
    return result
