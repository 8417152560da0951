"""Recent device use of each team, for fair shares.

Use is Σ over the team's runs of weight · ∫ 2^(−age / HALF_LIFE) dt, in device-seconds, plus weight · RUNNING_PENALTY
for each run in training; weight is the number of GPUs, or CPU_SLOT_WEIGHT without any. Use of six hours ago counts
half, of twelve hours ago a quarter.
"""

from __future__ import annotations

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
SELECT team_id, sum(weight * (
    %(half)s / ln(2) * (
        power(2, -greatest(0, extract(epoch FROM %(now)s - coalesce(ended_at, %(now)s))) / %(half)s)
        - power(2, -greatest(0, extract(epoch FROM %(now)s - greatest(began_at, %(oldest)s))) / %(half)s)
    ) + CASE WHEN ended_at IS NULL THEN %(held)s ELSE 0 END))::float8
FROM runs_deviceuse WHERE ended_at IS NULL OR ended_at > %(oldest)s
GROUP BY team_id
"""


def weight(gpus: int) -> float:
    """Weight of a run with that number of reserved GPUs."""
    return float(gpus) if gpus else CPU_SLOT_WEIGHT


def used(now: datetime) -> dict[int, float]:
    """Decayed device-seconds by team; teams without use are left out. One query."""
    parameters: dict[str, Any] = {
        "now": now,
        "oldest": now - KEEP,
        "half": HALF_LIFE.total_seconds(),
        "held": RUNNING_PENALTY.total_seconds(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_USED, parameters)
        return dict(cursor.fetchall())


def begin(run: Run, gpus: int, now: datetime) -> None:
    """Record that the run's team uses that number of GPUs from now on."""
    end([run.pk], now)
    DeviceUse.objects.create(team_id=run.team_id, run=run, weight=weight(gpus), began_at=now)


def end(runs: list[int], now: datetime) -> None:
    """Record that those runs have released their devices."""
    DeviceUse.objects.filter(run__in=runs, ended_at=None).update(ended_at=now)


def forget(now: datetime) -> None:
    """Drop use older than KEEP."""
    DeviceUse.objects.filter(ended_at__lt=now - KEEP).delete()
