"""What each team has lately used of the devices, for fair shares. Who goes first by it is decided in line.py.

A team's use is Σ over its runs of weight · ∫ 2^(−age / HALF_LIFE) dt, in device-seconds, plus weight · HELD for each
run that it is training now; weight is the number of GPUs, or PLACE for a run without any. Of what was used six hours
ago half counts still, of what was used twelve hours ago a quarter.
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
"""Older use counts less than a thousandth, and is forgotten."""

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
    """What a run with so many GPUs of its own counts."""
    return float(gpus) if gpus else CPU_SLOT_WEIGHT


def used(now: datetime) -> dict[int, float]:
    """Device-seconds by team, as the formula above has it; teams without any are left out. One query."""
    given: dict[str, Any] = {
        "now": now,
        "oldest": now - KEEP,
        "half": HALF_LIFE.total_seconds(),
        "held": RUNNING_PENALTY.total_seconds(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_USED, given)
        return dict(cursor.fetchall())


def begin(run: Run, gpus: int, now: datetime) -> None:
    """The run's team uses so many GPUs from now on."""
    end([run.pk], now)
    DeviceUse.objects.create(team_id=run.team_id, run=run, weight=weight(gpus), began_at=now)


def end(runs: list[int], now: datetime) -> None:
    """Those runs use nothing any more."""
    DeviceUse.objects.filter(run__in=runs, ended_at=None).update(ended_at=now)


def forget(now: datetime) -> None:
    """Drop what counts nothing any more."""
    DeviceUse.objects.filter(ended_at__lt=now - KEEP).delete()
