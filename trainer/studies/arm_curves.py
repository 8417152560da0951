"""Charts of a study: each arm's mean over its runs, with the standard deviation, at every iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from trainer.metrics.charts import Points, Series
from trainer.metrics.registry import get_spec
from trainer.metrics.spec import Unit
from trainer.studies.cell_settings import environment_title
from trainer.studies.results import ArmResult, RunRow, StudyResults


@dataclass(frozen=True)
class BandPoint:
    """Mean and standard deviation over the runs that have begun and not ended there; 0 for a single run."""

    iteration: float
    mean: float
    deviation: float
    runs: int


def band(lines: Sequence[Points]) -> list[BandPoint]:
    """Compute mean ± deviation at each iteration of any run; the other runs are interpolated between their points."""
    result = []
    ats = [0] * len(lines)
    for iteration in sorted({at for line in lines for at, _ in line}):
        values = []
        for number, line in enumerate(lines):
            while ats[number] < len(line) - 1 and line[ats[number]][0] < iteration:
                ats[number] += 1
            value = _value(line, ats[number], iteration)
            if value is not None and math.isfinite(value):
                values.append(value)
        if values:
            deviation = stdev(values) if len(values) > 1 else 0.0
            result.append(BandPoint(iteration, fmean(values), deviation, len(values)))
    return result


def _value(line: Points, at: int, iteration: float) -> float | None:
    if not line or line[at][0] < iteration:
        return None
    end, end_value = line[at]
    if end == iteration:
        return end_value
    if at == 0:
        return None
    start, start_value = line[at - 1]
    return start_value + (iteration - start) / (end - start) * (end_value - start_value)


@dataclass(frozen=True)
class ArmCurve:
    """An arm in a chart: the lines of its runs, and their mean."""

    arm: ArmResult
    runs: Sequence[Points]
    points: Sequence[BandPoint]

    def series(self, unit: Unit) -> Series:
        """Return the mean, with its band if there are several runs; bands of shares are limited to 0 and 1."""
        low, high = (0.0, 1.0) if unit == "share" else (-math.inf, math.inf)
        ends = [
            (point.iteration, max(low, point.mean - point.deviation), min(high, point.mean + point.deviation))
            for point in self.points
            if point.runs > 1
        ]
        means = [(point.iteration, point.mean) for point in self.points]
        return Series(self.arm.arm.title, means, self.arm.colour, band=ends)


@dataclass(frozen=True)
class ArmChart:
    """A metric of the arms in one environment."""

    title: str
    metric: str
    curves: Sequence[ArmCurve]


LineOf = Callable[[RunRow, str], Points]
"""Returns the points of a run in a metric, in order of iteration; empty without any."""


def charts(results: StudyResults, line_of: LineOf) -> list[ArmChart]:
    """Chart success in evaluations and the study's metrics, in every environment where an arm has values."""
    suites = {row.outcome.environment: row.outcome.suite for row in results.rows}
    arm_charts = []
    for name in ("", *results.plan.curves):
        for environment in results.plan.environments:
            metric = name or evaluated(suites.get(environment, ""))
            arms = (arm for arm in results.arms if arm.environment == environment)
            curves = [curve for arm in arms if (curve := _curve(arm, metric, line_of)).points]
            # The title of an evaluation's metric names the suite, which is the environment itself here.
            title = get_spec(metric).title if name else "Success on the evaluation puzzles"
            if len(results.plan.environments) > 1:
                title = f"{environment_title(environment)}: {title[0].lower()}{title[1:]}"
            if curves:
                arm_charts.append(ArmChart(title, metric, curves))
    return arm_charts


def evaluated(suite: str) -> str:
    """Return the metric of success in a suite."""
    return f"eval/{suite}/success"


def _curve(arm: ArmResult, metric: str, line_of: LineOf) -> ArmCurve:
    """Build an arm's curve, stretched to the corresponding iterations of other arms."""
    lines = [[(at * arm.arm.stretch, value) for at, value in line_of(row, metric)] for row in arm.rows]
    present = [line for line in lines if line]
    return ArmCurve(arm, present, band(present))
