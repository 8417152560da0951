"""Curves of arms as mean ± standard deviation over their runs, for the page and as one SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from trainer.metrics.charts import Panel, Series, document
from trainer.metrics.spec import MetricSpec
from trainer.studies.cell_settings import environment_title
from webapp.runs import curves
from webapp.runs.curves import Point, described, value_words
from webapp.runs.metric_charts import MetricChart
from webapp.studies.study_results import ArmResult, StudyResults

POINTS = 150
MAX_LINES = 12
"""Arms in one chart: the first ones, of a search the best."""
MAX_CURVES = 4


@dataclass(frozen=True)
class BandPoint:
    """Mean over the runs that have begun and not ended there, and the standard deviation; 0 for a single run."""

    iteration: float
    mean: float
    deviation: float
    runs: int


def band(lines: Sequence[Sequence[Point]]) -> list[BandPoint]:
    """Mean ± deviation at each iteration at which a run has a point; between two points of a run it is interpolated."""
    result = []
    ats = [0] * len(lines)
    for iteration in sorted({point.iteration for line in lines for point in line}):
        values = []
        for number, line in enumerate(lines):
            while ats[number] < len(line) - 1 and line[ats[number]].iteration < iteration:
                ats[number] += 1
            value = _value(line, ats[number], iteration)
            if value is not None and math.isfinite(value):
                values.append(value)
        if values:
            deviation = stdev(values) if len(values) > 1 else 0.0
            result.append(BandPoint(iteration, fmean(values), deviation, len(values)))
    return result


def _value(line: Sequence[Point], at: int, iteration: int) -> float | None:
    if not line or line[at].iteration < iteration:
        return None
    after = line[at]
    if after.iteration == iteration:
        return after.value
    if at == 0:
        return None
    before = line[at - 1]
    share = (iteration - before.iteration) / (after.iteration - before.iteration)
    return before.value + share * (after.value - before.value)


def charts_of(results: StudyResults) -> list[MetricChart]:
    """One chart for each metric of the study in each environment. Three queries."""
    stretch = {arm.name: arm.stretch for arm in results.plan.arms}
    keys = [cell.run.pk for cell in results.cells]
    suites = {cell.environment: cell.run.environment for cell in results.cells}
    evaluated = list(dict.fromkeys(f"eval/{suite}/success" for suite in suites.values()))
    names = results.plan.curves[:MAX_CURVES]
    found = curves.cut(keys, [*evaluated, *names], width=POINTS).curves if keys else {}
    charts = []
    for environment in results.plan.environments:
        rows = [row for row in results.rows if row.environment == environment]
        for name in (f"eval/{suites.get(environment, '')}/success", *names):
            drawn = []
            for row in rows:
                lines = [line for cell in row.cells if (line := found.get((cell.run.pk, name)))]
                factor = stretch.get(row.arm.name, 1)
                points = [BandPoint(p.iteration * factor, p.mean, p.deviation, p.runs) for p in band(lines)]
                if points:
                    drawn.append((row, points))
            if drawn:
                charts.append(_chart(environment, name, drawn, several=len(results.plan.environments) > 1))
    return charts


def _chart(
    environment: str, name: str, drawn: Sequence[tuple[ArmResult, list[BandPoint]]], *, several: bool
) -> MetricChart:
    spec = described(name)
    shown = drawn[:MAX_LINES]
    lines = [
        Series(
            row.arm.title,
            [(point.iteration, point.mean) for point in points],
            row.colour,
            band=[_ends(spec, point) for point in points if point.runs > 1],
        )
        for row, points in shown
    ]
    texts = [[_text(spec, point) for point in points] for _, points in shown]
    # The title of an evaluation's metric names the suite, which here is the environment itself.
    title = "Success on the fixed prompts" if name.startswith("eval/") else spec.title
    title = f"{environment_title(environment)}: {title[0].lower()}{title[1:]}" if several else title
    return MetricChart(title, spec, lines, texts, len(drawn) - len(shown))


def _ends(spec: MetricSpec, point: BandPoint) -> tuple[float, float, float]:
    """Iteration, and the ends of mean ± deviation; shares stay within 0 and 1."""
    low, high = point.mean - point.deviation, point.mean + point.deviation
    return (point.iteration, max(0.0, low), min(1.0, high)) if spec.unit == "share" else (point.iteration, low, high)


def _text(spec: MetricSpec, point: BandPoint) -> str:
    around = f" ± {value_words(spec, point.deviation)}" if point.runs > 1 else ""
    return value_words(spec, point.mean) + around


def picture(results: StudyResults, charts: Sequence[MetricChart]) -> str:
    """All charts as one SVG document."""
    panels = [
        Panel(chart.title, [replace(line, colour=line.colour - 1) for line in chart.lines], chart.spec.unit)
        for chart in charts
    ]
    return document(results.study.title, panels, columns=2)
