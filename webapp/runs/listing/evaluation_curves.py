"""Evaluation results of many runs as small curves with their intervals, for the list of runs. One query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from django.db import connection

from trainer.metrics.charts import spark

MAX_POINTS = 40
LEAST_SPAN = 0.1
"""Minimum height of a curve, so that a difference of a single puzzle does not fill it."""


@dataclass(frozen=True)
class EvaluationCurve:
    """Success of a run in one suite over its evaluations, oldest first, with the limits of the intervals.

    `iteration` and `prompts` are values of the last evaluation.
    """

    suite: str
    values: list[float]
    lows: list[float]
    highs: list[float]
    iteration: int
    prompts: int

    @property
    def success(self) -> float:
        return self.values[-1]

    @property
    def success_low(self) -> float:
        return self.lows[-1]

    @property
    def success_high(self) -> float:
        return self.highs[-1]

    @property
    def gain(self) -> float | None:
        """Difference between the last and the first evaluation; None with a single one."""
        return self.values[-1] - self.values[0] if len(self.values) > 1 else None

    @property
    def line(self) -> str:
        """Points of a polyline in a box of 100 × 30; empty with a single evaluation."""
        return spark(self.values, span=self._range)

    @property
    def band(self) -> str:
        """Points of the polygon of the intervals."""
        low, high = (spark(ends, span=self._range) for ends in (self.lows, self.highs))
        return " ".join([high, *reversed(low.split())])

    @cached_property
    def _range(self) -> tuple[float, float]:
        low, high = min(self.lows), max(self.highs)
        missing = max(0.0, LEAST_SPAN - (high - low))
        return low - missing / 2, high + missing / 2


def evaluation_curves(environments: Mapping[int, str]) -> dict[int, EvaluationCurve]:
    """Return the curve of each evaluated run, preferably for the suite of its own environment.

    Args:
        environments: environment by the run's primary key.
    """
    curves: dict[int, EvaluationCurve] = {}
    with connection.cursor() as cursor:
        cursor.execute(_CURVES, [list(environments), MAX_POINTS])
        for run, *curve in cursor.fetchall():
            candidate = EvaluationCurve(*curve)
            if run not in curves or candidate.suite == environments[run]:
                curves[run] = candidate
    return curves


_CURVES = """
SELECT run_id, suite, array_agg(success ORDER BY iteration), array_agg(success_low ORDER BY iteration),
    array_agg(success_high ORDER BY iteration), max(iteration), (array_agg(prompts ORDER BY iteration DESC))[1]
FROM (
    SELECT run_id, suite, iteration, prompts, success, success_low, success_high,
        row_number() OVER (PARTITION BY run_id, suite ORDER BY iteration) AS place,
        count(*) OVER (PARTITION BY run_id, suite) AS total
    FROM runs_evaluation WHERE run_id = ANY(%s)
) AS numbered
WHERE place = 1 OR place = total OR place %% (total / %s + 1) = 0
GROUP BY run_id, suite
ORDER BY run_id, suite
"""
"""Results by run and suite: the first, the last, and evenly spaced ones in between."""
