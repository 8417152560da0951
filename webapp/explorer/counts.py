"""Counts of the trajectories that match filters, and the starting point of live counts.

static/js/explorer/explorer_counts.js updates `live_counts` from the journal's events. Keep both in step: the counts at
event n plus the events n+1 … m must equal the counts at m.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, Q, Subquery
from django.db.models.functions import Coalesce

from webapp.explorer.trajectory_filters import Filters, alarms_of, filter_trajectories, known_reward, windows
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet

LIMIT = 200_000
"""Maximum count of trajectories; above it only "more than" is reported."""
LIMIT_OF_TEXT = 5_000
"""The same for full-text searches, which read the turns of each trajectory."""
MAX_OPEN = 3_000
"""With more unfinished trajectories than this, a page requests the counts instead of updating them itself."""
SERVER_FILTERS = {
    "text", "starred", "tag", "claims", "false_claim_kinds", "mark", "mistake_turn", "reason", "break_turn",
    "truth_min", "truth_max",
}  # fmt: skip
"""Filters that pages do not evaluate from events."""


@dataclass(frozen=True)
class ResultCounts:
    """Counts of a search; with `more`, only `found` is set.

    Attributes:
        ended, success: trajectories whose success is known, and those of them that were solved.
        reward, rewarded: sum of the recorded rewards of WITH_REWARD, whatever their success, and the number of these.
    """

    found: int
    ended: int
    success: int
    reward: float
    rewarded: int
    more: bool = False

    @property
    def share(self) -> float | None:
        """Share of the trajectories of known success that were solved."""
        return self.success / self.ended if self.ended else None

    @property
    def mean(self) -> float | None:
        """Mean of the recorded rewards; None if there is none."""
        return self.reward / self.rewarded if self.rewarded else None


ENDED = Q(status__in=Trajectory.ENDED)
WITH_REWARD = (*Trajectory.COUNTED, Trajectory.Status.UNKNOWN)
"""Trajectories whose rewards are averaged: those that were interrupted have a part of theirs."""


def facts(run: Run, filters: Filters) -> ResultCounts:
    """Counts of the trajectories that match, in one statement that reads at most the limit."""
    limit = LIMIT if filters.text is None else LIMIT_OF_TEXT
    return _summed(_tallies(filter_trajectories(run, filters), Q(pk__isnull=True), limit), limit)


@dataclass(frozen=True)
class _Tally:
    """Number of trajectories with one status, separately for those that may still change."""

    status: str
    number: int
    reward: float
    rewarded: int
    still_open: bool


def _tallies(queryset: TrajectoryQuerySet, still_open: Q, limit: int) -> list[_Tally]:
    """Tallies of the query, in one raw statement that reads each row once; faster than aggregates of the ORM."""
    marked = queryset.annotate(still_open=ExpressionWrapper(still_open, BooleanField()), known_reward=known_reward())
    try:
        sql, params = marked.values_list("status", "known_reward", "still_open")[: limit + 1].query.sql_with_params()
    except EmptyResultSet:  # the filters contradict each other
        return []
    with connection.cursor() as cursor:
        cursor.execute(_TALLIES.format(sql), params)
        return [_Tally(*row) for row in cursor.fetchall()]


_TALLIES = """
SELECT status, count(*), coalesce(sum(reward), 0), count(reward), still_open
FROM ({}) AS matching (status, reward, still_open) GROUP BY status, still_open ORDER BY status, still_open
"""


def _summed(tallies: Iterable[_Tally], limit: int) -> ResultCounts:
    counted = list(tallies)
    ended = [tally for tally in counted if tally.status in Trajectory.COUNTED]
    rewarded = [tally for tally in counted if tally.status in WITH_REWARD]
    facts = ResultCounts(
        found=sum(tally.number for tally in counted),
        ended=sum(tally.number for tally in ended),
        success=sum(tally.number for tally in ended if tally.status == Trajectory.Status.SUCCESS),
        reward=sum((tally.reward for tally in rewarded), 0.0),
        rewarded=sum(tally.rewarded for tally in rewarded),
    )
    return facts if facts.found <= limit else ResultCounts(limit, 0, 0, 0.0, 0, more=True)


def live_counts(run: Run, filters: Filters) -> dict[str, Any]:
    """Counts and open trajectories from which a page updates its counts. Call inside `one_moment`.

    seq, attempt      of the run
    now               counts at that event
    by_itself         whether the following keys are present; otherwise the page requests new counts after events
    filters           active filters by name
    newest            iteration: trajectories of earlier iterations no longer change, except those in `open`
    base              counts without those in `open`
    open              trajectories that may still change or start to match: id iteration split suite environment group
                      kept status turns actions tokens reward broken end lost error
    windows           iterations inside alarms: [first, end (exclusive) or null]
    """
    current = Trajectory.objects.current().filter(run=run)
    highest = Subquery(current.order_by("-iteration").values("iteration")[:1])
    seq, attempt, newest = Run.objects.values_list("seq", "attempt", Coalesce(highest, 0)).get(pk=run.pk)
    result: dict[str, Any] = {"seq": seq, "attempt": attempt, "by_itself": False}
    active = filters.active()
    if SERVER_FILTERS & active.keys():
        return result | {"now": asdict(facts(run, filters))}
    still_open = Q(iteration__gte=newest) | ~ENDED | Q(split="train", group__kept__isnull=True)
    tallies = _tallies(filter_trajectories(run, filters), still_open, LIMIT)
    now, base = _summed(tallies, LIMIT), _summed((tally for tally in tallies if not tally.still_open), LIMIT)
    result["now"] = asdict(now)
    opened = [] if now.more else list(_open(current.filter(still_open)))
    if now.more or len(opened) > MAX_OPEN:
        return result
    result |= {"by_itself": True, "filters": active, "newest": newest, "open": opened, "base": asdict(base)}
    result["windows"] = windows(alarms_of(run))
    return result


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
    "reward": "known_reward",
    "broken": "format_error",
    "end": "end",
    "lost": "lost_at",
    "error": "error",
}


def _open(queryset: TrajectoryQuerySet) -> Iterator[dict[str, Any]]:
    rows = queryset.annotate(known_reward=known_reward()).order_by("pk")
    for values in rows.values_list(*_COLUMNS.values())[: MAX_OPEN + 1]:
        yield dict(zip(_COLUMNS, values, strict=True))
