"""Recent device use of each team and each person, for fair shares.

A run is ordered by the larger of the two, so that a person gains nothing by spreading runs over several teams, nor a
team by having many members. Use is Σ over the runs of weight · ∫ 2^(−age / HALF_LIFE) dt, in device-seconds, plus
weight · RUNNING_PENALTY for each run in training; weight is the number of GPUs, or CPU_SLOT_WEIGHT without any. Use of
six hours ago counts half, of twelve hours ago a quarter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from webapp.runs.models import DeviceUse, Run

HALF_LIFE = timedelta(hours=6)
RUNNING_PENALTY = timedelta(hours=1)
CPU_SLOT_WEIGHT = 0.1
KEEP = 10 * HALF_LIFE
"""Older use counts less than a thousandth and is dropped."""

_USED = """
SELECT team_id, author_id, sum(weight * (
    %(half)s / ln(2) * (
        power(2, -greatest(0, extract(epoch FROM %(now)s - coalesce(ended_at, %(now)s))) / %(half)s)
        - power(2, -greatest(0, extract(epoch FROM %(now)s - greatest(began_at, %(oldest)s))) / %(half)s)
    ) + CASE WHEN ended_at IS NULL THEN %(held)s ELSE 0 END))::float8
FROM runs_deviceuse WHERE ended_at IS NULL OR ended_at > %(oldest)s
GROUP BY GROUPING SETS ((team_id), (author_id))
"""


@dataclass(frozen=True)
class DeviceShares:
    """Decayed device-seconds by team and by person, without those that have not used any."""

    teams: dict[int, float] = field(default_factory=dict)
    people: dict[int, float] = field(default_factory=dict)

    def of_person(self, run: Run) -> float:
        """Return the use by the run's author; 0 if the account was deleted."""
        return 0.0 if run.author_id is None else self.people.get(run.author_id, 0.0)

    def of(self, run: Run) -> float:
        """Return the use by which the run is ordered among runs of other teams."""
        return max(self.teams.get(run.team_id, 0.0), self.of_person(run))

    def charged(self, run: Run, seconds: float) -> None:
        """Add to the use by the run's team and author."""
        self.teams[run.team_id] = self.teams.get(run.team_id, 0.0) + seconds
        if run.author_id is not None:
            self.people[run.author_id] = self.of_person(run) + seconds

    def copy(self) -> DeviceShares:
        return DeviceShares(dict(self.teams), dict(self.people))


def weight(gpus: float) -> float:
    """Return the weight of a run with that number of reserved GPUs, including GPUs of a cluster."""
    return float(gpus) if gpus else CPU_SLOT_WEIGHT


def used(now: datetime) -> DeviceShares:
    """Return the decayed device-seconds of all teams and people. One query."""
    parameters: dict[str, Any] = {
        "now": now,
        "oldest": now - KEEP,
        "half": HALF_LIFE.total_seconds(),
        "held": RUNNING_PENALTY.total_seconds(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_USED, parameters)
        rows = cursor.fetchall()
    teams = {team: seconds for team, _, seconds in rows if team is not None}
    return DeviceShares(teams, {author: seconds for _, author, seconds in rows if author is not None})


def begin(run: Run, gpus: float, now: datetime) -> None:
    """Record that the run's team and author use that number of GPUs from now on."""
    end([run.pk], now)
    DeviceUse.objects.create(team_id=run.team_id, author_id=run.author_id, run=run, weight=weight(gpus), began_at=now)


def end(runs: list[int], now: datetime) -> None:
    """Record that the runs have released their devices."""
    DeviceUse.objects.filter(run__in=runs, ended_at=None).update(ended_at=now)


def forget(now: datetime) -> None:
    """Delete use older than KEEP."""
    DeviceUse.objects.filter(ended_at__lt=now - KEEP).delete()
