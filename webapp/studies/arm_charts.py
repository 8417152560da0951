"""Charts of a study, for its page and as one SVG file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainer.metrics.charts import Panel, Points, document
from trainer.metrics.registry import get_spec
from trainer.metrics.spec import MetricSpec
from trainer.studies import arm_curves
from trainer.studies.arm_curves import ArmChart, BandPoint
from trainer.studies.results import RunRow, StudyResults
from webapp.runs import curves
from webapp.runs.metric_charts import MetricChart

POINTS = 150
MAX_LINES = 12
"""Maximum number of arms in one chart: the first ones, or the best of a search."""


def build_charts(results: StudyResults) -> list[MetricChart]:
    """Return one chart for each metric of the study in each environment. Three queries."""
    suites = {row.outcome.suite for row in results.rows}
    names = [*map(arm_curves.evaluated, suites), *results.plan.curves]
    points = curves.cut([row.key for row in results.rows], names, width=POINTS).curves if results.rows else {}

    def get_points(row: RunRow, metric: str) -> Points:
        return [(point.iteration, point.value) for point in points.get((row.key, metric), ())]

    return [_chart(chart) for chart in arm_curves.charts(results, get_points)]


def _chart(chart: ArmChart) -> MetricChart:
    spec = get_spec(chart.metric)
    shown = chart.curves[:MAX_LINES]
    lines = [curve.series(spec.unit) for curve in shown]
    texts = [[_text(spec, point) for point in curve.points] for curve in shown]
    return MetricChart(chart.title, spec, lines, texts, len(chart.curves) - len(shown))


def _text(spec: MetricSpec, point: BandPoint) -> str:
    around = f" ± {spec.reading(point.deviation)}" if point.runs > 1 else ""
    return spec.reading(point.mean) + around


def picture(title: str, charts: Sequence[MetricChart]) -> str:
    """Return all charts as one SVG document."""
    panels = [
        Panel(chart.title, [replace(line, colour=line.colour - 1) for line in chart.lines], chart.spec.unit)
        for chart in charts
    ]
    return document(title, panels, columns=2)
