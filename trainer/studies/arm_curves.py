"""Charts of a study: the mean of each arm over its runs, with its standard deviation, at every iteration."""

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
    """Mean over the runs that have begun and not ended there, and the standard deviation; 0 for a single run."""

    iteration: float
    mean: float
    deviation: float
    runs: int


def band(lines: Sequence[Points]) -> list[BandPoint]:
    """Mean ± deviation at each iteration at which a run has a point; between two points of a run it is interpolated."""
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
    end, after = line[at]
    if end == iteration:
        return after
    if at == 0:
        return None
    start, before = line[at - 1]
    return before + (iteration - start) / (end - start) * (after - before)


@dataclass(frozen=True)
class ArmCurve:
    """An arm in a chart: the lines of its runs, and their mean."""

    arm: ArmResult
    runs: Sequence[Points]
    points: Sequence[BandPoint]

    def series(self, unit: Unit) -> Series:
        """The mean with its band where several runs are; bands of shares stay within 0 and 1."""
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
"""The points of a run in a metric, in order of iteration; empty without any."""


def charts(results: StudyResults, line_of: LineOf) -> list[ArmChart]:
    """Success in evaluations and the metrics of the study, each in every environment where an arm has values."""
    suites = {row.outcome.environment: row.outcome.suite for row in results.rows}
    found = []
    for name in ("", *results.plan.curves):
        for environment in results.plan.environments:
            metric = name or evaluated(suites.get(environment, ""))
            own = (arm for arm in results.arms if arm.environment == environment)
            curves = [curve for arm in own if (curve := _curve(arm, metric, line_of)).points]
            # The title of an evaluation's metric names the suite, which here is the environment itself.
            title = get_spec(metric).title if name else "Success on the fixed prompts"
            if len(results.plan.environments) > 1:
                title = f"{environment_title(environment)}: {title[0].lower()}{title[1:]}"
            if curves:
                found.append(ArmChart(title, metric, curves))
    return found


def evaluated(suite: str) -> str:
    """The metric of success in a suite."""
    return f"eval/{suite}/success"


def _curve(arm: ArmResult, metric: str, line_of: LineOf) -> ArmCurve:
    """An arm's curve, stretched to the iterations of other arms that correspond to its own."""
    lines = [[(at * arm.arm.stretch, value) for at, value in line_of(row, metric)] for row in arm.rows]
    present = [line for line in lines if line]
    return ArmCurve(arm, present, band(present))
