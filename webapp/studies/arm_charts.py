"""Charts of a study: curves of arms as mean ± standard deviation over their runs, for the page and as one SVG file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainer.metrics.charts import Panel, document
from trainer.metrics.spec import MetricSpec
from trainer.studies.arm_curves import BandPoint, band, series
from trainer.studies.cell_settings import environment_title
from trainer.studies.results import ArmResult, StudyResults
from webapp.runs import curves
from webapp.runs.curves import described
from webapp.runs.metric_charts import MetricChart

POINTS = 150
MAX_LINES = 12
"""Arms in one chart: the first ones, of a search the best."""
MAX_CURVES = 4


def charts_of(results: StudyResults) -> list[MetricChart]:
    """One chart for each metric of the study in each environment. Three queries."""
    keys = [row.key for row in results.rows]
    suites = {row.outcome.environment: row.outcome.suite for row in results.rows}
    evaluated = list(dict.fromkeys(f"eval/{suite}/success" for suite in suites.values()))
    names = results.plan.curves[:MAX_CURVES]
    found = curves.cut(keys, [*evaluated, *names], width=POINTS).curves if keys else {}
    charts = []
    for environment in results.plan.environments:
        arms = [arm for arm in results.arms if arm.environment == environment]
        for name in (f"eval/{suites.get(environment, '')}/success", *names):
            drawn = []
            for arm in arms:
                lines = [
                    [(float(point.iteration), point.value) for point in line]
                    for row in arm.rows
                    if (line := found.get((row.key, name)))
                ]
                if points := band(lines, arm.arm.stretch):
                    drawn.append((arm, points))
            if drawn:
                charts.append(_chart(environment, name, drawn, several=len(results.plan.environments) > 1))
    return charts


def _chart(
    environment: str, name: str, drawn: Sequence[tuple[ArmResult, list[BandPoint]]], *, several: bool
) -> MetricChart:
    spec = described(name)
    shown = drawn[:MAX_LINES]
    lines = [series(arm.arm.title, arm.colour, points, spec.unit) for arm, points in shown]
    texts = [[_text(spec, point) for point in points] for _, points in shown]
    # The title of an evaluation's metric names the suite, which here is the environment itself.
    title = "Success on the fixed prompts" if name.startswith("eval/") else spec.title
    title = f"{environment_title(environment)}: {title[0].lower()}{title[1:]}" if several else title
    return MetricChart(title, spec, lines, texts, len(drawn) - len(shown))


def _text(spec: MetricSpec, point: BandPoint) -> str:
    around = f" ± {spec.reading(point.deviation)}" if point.runs > 1 else ""
    return spec.reading(point.mean) + around


def picture(title: str, charts: Sequence[MetricChart]) -> str:
    """All charts as one SVG document."""
    panels = [
        Panel(chart.title, [replace(line, colour=line.colour - 1) for line in chart.lines], chart.spec.unit)
        for chart in charts
    ]
    return document(title, panels, columns=2)
