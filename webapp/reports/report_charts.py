"""Charts of a report: one for each metric, with a line for each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainer.metrics.charts import Series
from trainer.metrics.spec import MetricSpec
from webapp.runs import curves
from webapp.runs.curves import Curves, Point, described
from webapp.runs.metric_charts import MetricChart
from webapp.runs.models import Run
from webapp.runs.run_colours import assign_colours

POINTS = 400


def main_metrics(runs: Sequence[Run]) -> tuple[str, ...]:
    """The metric shown without a choice: success in the evaluation of the runs' environment, else in training."""
    wanted = [*(f"eval/{run.environment}/success" for run in runs), "success/rate", "reward/mean"]
    names = set(curves.load_metric_names([run.pk for run in runs]))
    return next(((name,) for name in wanted if name in names), ("success/rate",))


def draw(runs: Sequence[Run], names: Sequence[str]) -> list[MetricChart]:
    """Draw a chart for each metric, with a line for each run that has it. At most three queries."""
    keys = [run.pk for run in runs]
    names = names or main_metrics(runs)
    every = [f"{name}{end}" for name in names for end in ("", *(("_low", "_high") if name.startswith("eval/") else ()))]
    values = curves.cut(keys, every, width=POINTS).curves
    return [build_chart(described(name), runs, values) for name in names]


def build_chart(spec: MetricSpec, runs: Sequence[Run], values: Curves) -> MetricChart:
    """Build the chart of a metric; evaluations have a band of their intervals."""
    lines: list[Series] = []
    texts: list[list[str]] = []
    for run, colour in zip(runs, assign_colours([run.pk for run in runs]), strict=True):
        if points := values.get((run.pk, spec.name)):
            low, high = (dict(_values(values.get((run.pk, spec.name + end), ()))) for end in ("_low", "_high"))
            band = [(at, low[at], high[at]) for at in low if at in high]
            lines.append(Series(run.title, _values(points), colour, band=band))
            texts.append([spec.reading(point.value) for point in points])
    return MetricChart(spec.title, spec, lines, texts)


def _values(points: Iterable[Point]) -> list[tuple[float, float]]:
    return [(point.iteration, point.value) for point in points]
