"""Curves of arms as mean ± standard deviation over their runs, for the page and as one SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from trainer.metrics.spec import MetricSpec
from trainer.studies import drawing
from trainer.studies.cell_settings import environment_title
from webapp.reports.report_charts import Chart, ChartLine, axes_of, joined
from webapp.runs import curves
from webapp.runs.curves import ChartSpec, Point, described, value_words
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


@dataclass(frozen=True)
class ArmCurve:
    """The curve of one arm. `stretch`: iterations of other arms that correspond to one of this arm."""

    row: ArmResult
    points: list[BandPoint]


@dataclass(frozen=True)
class ArmChart:
    """A metric in one environment: the drawing with the colours of its lines, and its curves."""

    title: str
    spec: MetricSpec
    curves: list[ArmCurve]
    chart: Chart
    left_out: int

    @property
    def lines(self) -> list[tuple[int, ChartLine]]:
        """(number of the colour, line)"""
        return [(curve.row.colour, line) for curve, line in zip(self.curves, self.chart.lines, strict=True)]


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


def charts_of(results: StudyResults) -> list[ArmChart]:
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
                    drawn.append(ArmCurve(row, points))
            if drawn:
                charts.append(_chart(environment, name, drawn, several=len(results.plan.environments) > 1))
    return charts


def _chart(environment: str, name: str, drawn: Sequence[ArmCurve], *, several: bool) -> ArmChart:
    spec = described(name)
    shown = list(drawn[:MAX_LINES])
    places = [point for curve in shown for point in curve.points]
    ends = [end for point in places for end in (point.mean - point.deviation, point.mean + point.deviation)]
    if spec.unit == "share":
        ends = [min(1.0, max(0.0, end)) for end in ends]
    iterations = [round(point.iteration) for point in places]
    axes = axes_of(spec, ends, min(iterations), max(iterations))

    def clipped(value: float) -> float:
        return min(1.0, max(0.0, value)) if spec.unit == "share" else value

    lines = []
    for curve in shown:
        spots = [axes.place(point.iteration, point.mean) for point in curve.points]
        above = [axes.place(point.iteration, clipped(point.mean + point.deviation)) for point in curve.points]
        below = [axes.place(point.iteration, clipped(point.mean - point.deviation)) for point in curve.points]
        spread = any(point.deviation for point in curve.points)
        lines.append(
            ChartLine(
                label=curve.row.arm.title,
                slug=curve.row.arm.name,
                path=joined(spots),
                band=joined([*above, *reversed(below)]) if spread else "",
                dots=" ".join(f"M{x:.1f} {y:.1f}h0" for x, y in spots) if len(spots) <= 40 else "",
                last=_words(spec, curve.points[-1]),
                values=[
                    (round(point.iteration), _words(spec, point), spot[0])
                    for point, spot in zip(curve.points, spots, strict=True)
                ],
            )
        )
    # The title of an evaluation's metric names the suite, which here is the environment itself.
    evaluated = name.startswith("eval/")
    title = "Success on the fixed prompts" if evaluated else spec.title
    title = f"{environment_title(environment)}: {title[0].lower()}{title[1:]}" if several else title
    chart = Chart(name, title, ChartSpec(spec).unit_words, lines, axes.up, axes.across, axes.grid)
    return ArmChart(title, spec, shown, chart, len(drawn) - len(shown))


def _words(spec: MetricSpec, point: BandPoint) -> str:
    around = f" ± {value_words(spec, point.deviation)}" if point.runs > 1 else ""
    return value_words(spec, point.mean) + around


def picture(results: StudyResults, charts: Sequence[ArmChart]) -> str:
    """All charts as one SVG document."""
    panels, legend = [], {}
    for chart in charts:
        series = []
        for curve in chart.curves:
            colour = curve.row.arm.number - 1
            legend[curve.row.arm.title] = colour
            points = [(point.iteration, point.mean) for point in curve.points]
            spread = [(p.iteration, p.mean - p.deviation, p.mean + p.deviation) for p in curve.points if p.runs > 1]
            series.append(drawing.PlotSeries(curve.row.arm.title, points, colour, band=spread))
        panels.append(drawing.Panel(chart.title, series, share=chart.spec.unit == "share"))
    return drawing.picture(results.study.title, panels, list(legend.items()), columns=2)
