"""How many trajectories the filters find, how they did, and what a live page needs to count on by itself.

static/js/explorer/explorer_counts.js continues from `live_counts` by the journal's events. Keep both in step: the
counts at event n plus the events n+1 … m are the counts at m.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, Q, Subquery
from django.db.models.functions import Coalesce

from webapp.explorer.trajectory_filters import Filters, alarms_of, filter_trajectories, windows
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet

LIMIT = 50_000
"""So many are counted; of more it is only said that there are more."""
LIMIT_OF_TEXT = 5_000
"""The same with a full-text search, where each one costs a look at its turns."""
MAX_OPEN = 3_000
"""With more trajectories than that still to change, a page asks the server instead of counting by itself."""
ASK_THE_SERVER = {"text", "starred", "tag"}
"""Filters that cannot be decided from events."""


@dataclass(frozen=True)
class ResultCounts:
    """What was found; `success` and `reward` (a sum) are those of the `ended` ones. With `more`, only `found` tells."""

    found: int
    ended: int
    success: int
    reward: float
    more: bool = False

    @property
    def share(self) -> float | None:
        """Of the ended ones, how many were solved."""
        return self.success / self.ended if self.ended else None

    @property
    def mean(self) -> float | None:
        """Mean total reward of the ended ones."""
        return self.reward / self.ended if self.ended else None


ENDED = Q(status__in=Trajectory.ENDED)


def facts(run: Run, filters: Filters) -> ResultCounts:
    """One statement, which looks at no more than the limit."""
    limit = LIMIT if filters.text is None else LIMIT_OF_TEXT
    return _summed(_tallies(filter_trajectories(run, filters), Q(pk__isnull=True), limit), limit)


@dataclass(frozen=True)
class _Tally:
    """So many trajectories of one status, those that may still change apart from the others."""

    status: str
    number: int
    reward: float
    still_open: bool


def _tallies(queryset: TrajectoryQuerySet, still_open: Q, limit: int) -> list[_Tally]:
    """In a statement of its own around the query: one look at the rows, in less time than the ORM aggregates."""
    marked = queryset.annotate(still_open=ExpressionWrapper(still_open, BooleanField()))
    try:
        sql, params = marked.values_list("status", "total_reward", "still_open")[: limit + 1].query.sql_with_params()
    except EmptyResultSet:  # the filters contradict each other
        return []
    with connection.cursor() as cursor:
        cursor.execute(_TALLIES.format(sql), params)
        return [_Tally(*row) for row in cursor.fetchall()]


_TALLIES = """
SELECT status, count(*), sum(total_reward), still_open
FROM ({}) AS looked_at (status, total_reward, still_open) GROUP BY status, still_open ORDER BY status, still_open
"""


def _summed(tallies: Iterable[_Tally], limit: int) -> ResultCounts:
    counted = list(tallies)
    ended = [one for one in counted if one.status in Trajectory.ENDED]
    facts = ResultCounts(
        found=sum(one.number for one in counted),
        ended=sum(one.number for one in ended),
        success=sum(one.number for one in ended if one.status == Trajectory.Status.SUCCESS),
        reward=sum((one.reward for one in ended), 0.0),
    )
    return facts if facts.found <= limit else ResultCounts(limit, 0, 0, 0.0, more=True)


def live_counts(run: Run, filters: Filters) -> dict[str, Any]:
    """What a page goes on counting from. To be called in one `one_moment`.

    seq, attempt      of the run
    now               the facts at that event
    by_itself         whether the rest is there; else the page asks the server when something has happened
    filters           those that are set, by name
    newest            iteration: trajectories of earlier ones no longer change, except those in `open`
    base              the facts without those in `open`
    open              what may still change or come into the filters: id iteration split suite environment group kept
                      status turns actions tokens reward broken end lost error
    windows           iterations inside alarms: [from, up to but without, or null]
    """
    current = Trajectory.objects.current().filter(run=run)
    highest = Subquery(current.order_by("-iteration").values("iteration")[:1])
    seq, attempt, newest = Run.objects.values_list("seq", "attempt", Coalesce(highest, 0)).get(pk=run.pk)
    known: dict[str, Any] = {"seq": seq, "attempt": attempt, "by_itself": False}
    asked = filters.asked()
    if ASK_THE_SERVER & asked.keys():
        return known | {"now": asdict(facts(run, filters))}
    still_open = Q(iteration__gte=newest) | ~ENDED | Q(split="train", group__kept__isnull=True)
    tallies = _tallies(filter_trajectories(run, filters), still_open, LIMIT)
    now, base = _summed(tallies, LIMIT), _summed((one for one in tallies if not one.still_open), LIMIT)
    known["now"] = asdict(now)
    opened = [] if now.more else list(_open(current.filter(still_open)))
    if now.more or len(opened) > MAX_OPEN:
        return known
    known |= {"by_itself": True, "filters": asked, "newest": newest, "open": opened, "base": asdict(base)}
    known["windows"] = windows(alarms_of(run))
    return known


_COLUMNS = {
    "id": "key",
    "iteration": "iteration",
    "split": "split",
    "suite": "group__suite",
    "group": "group__number",
    "environment": "group__environment",
    "kept": "group__kept",
    "status": "status",
    "turns": "turn_count",
    "actions": "action_count",
    "tokens": "token_count",
    "reward": "total_reward",
    "broken": "format_error",
    "end": "end",
    "lost": "lost_at",
    "error": "error",
}


def _open(queryset: TrajectoryQuerySet) -> Iterator[dict[str, Any]]:
    for values in queryset.order_by("pk").values_list(*_COLUMNS.values())[: MAX_OPEN + 1]:
        yield dict(zip(_COLUMNS, values, strict=True))
