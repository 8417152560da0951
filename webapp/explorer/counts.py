"""Counts of the trajectories that match filters."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import EmptyResultSet
from django.db import connection

from webapp.explorer.trajectory_filters import Filters, filter_trajectories, known_reward
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

LIMIT = 200_000
"""Maximum count of trajectories; above it only "more than" is reported."""
LIMIT_OF_TEXT = 5_000
"""Maximum for searches in texts, which read the turns of each trajectory."""


@dataclass(frozen=True)
class ResultCounts:
    """Counts of a search; with `more`, only `found` is set.

    Attributes:
        ended, success: number of trajectories with known success, and number of solved ones.
        reward, rewarded: sum and number of the recorded rewards of WITH_REWARD, whatever their success.
    """

    found: int
    ended: int
    success: int
    reward: float
    rewarded: int
    more: bool = False

    @property
    def share(self) -> float | None:
        """Share of solved trajectories among those with known success."""
        return self.success / self.ended if self.ended else None

    @property
    def mean(self) -> float | None:
        """Mean of the recorded rewards; None if there is none."""
        return self.reward / self.rewarded if self.rewarded else None


WITH_REWARD = (*Trajectory.COUNTED, Trajectory.Status.UNKNOWN)
"""Trajectories with averaged rewards, without interrupted ones, which have only a part of theirs."""


def facts(run: Run, filters: Filters) -> ResultCounts:
    """Count the trajectories that match, in one statement that reads at most the limit, each row once."""
    limit = LIMIT_OF_TEXT if filters.reads_turns else LIMIT
    matching = filter_trajectories(run, filters).annotate(known_reward=known_reward())
    try:
        sql, params = matching.values_list("status", "known_reward")[: limit + 1].query.sql_with_params()
    except EmptyResultSet:  # the filters contradict each other
        return ResultCounts(0, 0, 0, 0.0, 0)
    counted, rewarded = ([status.value for status in group] for group in (Trajectory.COUNTED, WITH_REWARD))
    with connection.cursor() as cursor:
        cursor.execute(_SUMS.format(sql), [counted, Trajectory.Status.SUCCESS.value, rewarded, rewarded, *params])
        sums = ResultCounts(*cursor.fetchone())
    return sums if sums.found <= limit else ResultCounts(limit, 0, 0, 0.0, 0, more=True)


_SUMS = """
SELECT count(*), count(*) FILTER (WHERE status = ANY(%s)), count(*) FILTER (WHERE status = %s),
    coalesce(sum(reward) FILTER (WHERE status = ANY(%s)), 0), count(reward) FILTER (WHERE status = ANY(%s))
FROM ({}) AS matching (status, reward)
"""
