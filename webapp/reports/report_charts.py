"""Charts of a report, drawn by the server: they need no script, and can be exported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.metrics.spec import MetricSpec, bytes_text
from webapp.core import formatting
from webapp.runs import curves
from webapp.runs.curves import ChartSpec, Point, described, value_words
from webapp.runs.models import Run

WIDTH, HEIGHT = 1000, 300
"""Size of the drawing area, which is stretched to its place on the page."""
POINTS = 400
INTERVALS = 4
"""Of the vertical axis, about."""


@dataclass(frozen=True)
class ChartLine:
    """A curve: places of its points in the drawing area, and its values for the read-out."""

    label: str
    slug: str
    path: str
    band: str
    dots: str
    last: str
    values: list[tuple[int, str, float]]
    """(iteration, value as text, x in the drawing area)"""


@dataclass(frozen=True)
class Chart:
    """A metric of one or more runs. Ticks are evenly spaced labels, upwards and to the right."""

    name: str
    title: str
    unit: str
    lines: list[ChartLine]
    up: list[str]
    across: list[str]
    grid: list[str]

    @property
    def words(self) -> str:
        """Description for readers who do not see it."""
        parts = [
            f"{line.label}: {line.values[0][1]} at iteration {line.values[0][0]}, "
            f"{line.last} at iteration {line.values[-1][0]}"
            for line in self.lines
        ]
        return f"{self.title}. " + "; ".join(parts) if parts else f"{self.title}: no values yet."

    @property
    def readings(self) -> list[dict[str, Any]]:
        """Data of the read-out below the cursor."""
        return [
            {"label": line.label, "points": [[at, text, round(x, 1)] for at, text, x in line.values]}
            for line in self.lines
        ]


def main_metrics(runs: Sequence[Run], available: Mapping[tuple[int, str], object]) -> tuple[str, ...]:
    """The metric shown without a choice: success in the evaluation of the runs' environment, else in training."""
    names = {name for _, name in available}
    for run in runs:
        if (name := f"eval/{run.environment}/success") in names:
            return (name,)
    return tuple(name for name in ("success/rate", "reward/mean") if name in names)[:1] or ("success/rate",)


def draw(runs: Sequence[Run], names: Sequence[str]) -> list[Chart]:
    """One chart for each metric, with a line for each run that has it. At most three queries."""
    keys = [run.pk for run in runs]
    if not names:
        names = main_metrics(runs, curves.summaries(keys))
    every = [name for one in names for name in (one, *_ends(one))]
    found = curves.cut(keys, every, width=POINTS).curves
    return [chart_of(described(name), runs, found) for name in names]


def _ends(name: str) -> tuple[str, ...]:
    """Metrics of the interval around an evaluation's success."""
    return (f"{name}_low", f"{name}_high") if name.startswith("eval/") and name.endswith("/success") else ()


def chart_of(spec: MetricSpec, runs: Sequence[Run], found: curves.Curves) -> Chart:
    """The chart of a metric from the points found."""
    name = spec.name
    drawn = [(run, found[run.pk, name]) for run in runs if found.get((run.pk, name))]
    ends = {run.pk: [found.get((run.pk, end), []) for end in _ends(name)] for run, _ in drawn}
    values = [point.value for _, points in drawn for point in points]
    values += [point.value for sides in ends.values() for side in sides for point in side]
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    first = min((points[0].iteration for _, points in drawn), default=0)
    last = max((points[-1].iteration for _, points in drawn), default=1)
    axes = axes_of(spec, finite, first, last)

    def place(point: Point) -> tuple[float, float]:
        return axes.place(point.iteration, point.value)

    lines = []
    for run, points in drawn:
        spots = [place(point) for point in points]
        band = ""
        if len(ends[run.pk]) == 2 and all(ends[run.pk]):
            below, above = ends[run.pk]
            band = joined([place(point) for point in above] + [place(point) for point in reversed(below)])
        few = len(points) <= 40
        lines.append(
            ChartLine(
                label=run.title,
                slug=run.slug,
                path=joined(spots),
                band=band,
                dots=" ".join(f"M{x:.1f} {y:.1f}h0" for x, y in spots) if few else "",
                last=value_words(spec, points[-1].value),
                values=[
                    (point.iteration, value_words(spec, point.value), spot[0])
                    for point, spot in zip(points, spots, strict=True)
                ],
            )
        )
    return Chart(name, spec.title, ChartSpec(spec).unit_words, lines, axes.up, axes.across, axes.grid)


@dataclass(frozen=True)
class ChartAxes:
    """Both axes of a chart: its lower end and height, first iteration and their number, and the labels."""

    low: float
    height: float
    first: float
    span: float
    up: list[str]
    across: list[str]
    grid: list[str]

    def place(self, iteration: float, value: float) -> tuple[float, float]:
        """Place of a point in the drawing area."""
        return WIDTH * (iteration - self.first) / self.span, HEIGHT * (1 - (value - self.low) / self.height)


def axes_of(spec: MetricSpec, values: Sequence[float], first: int, last: int) -> ChartAxes:
    """Axes that hold the values, all finite, and iterations `first` to `last`."""
    divisor, sign = _unit_of_ticks(spec, max(map(abs, values)))
    start, distance, count = scale([value / divisor for value in values])
    up = [f"{_tick(start + distance * number, distance)}{sign}" for number in range(count + 1)]
    grid = [f"{HEIGHT * number / count:.1f}" for number in range(count + 1)]
    across = _across(first, last)
    return ChartAxes(start * divisor, distance * divisor * count, first, max(1, last - first), up, across, grid)


def scale(values: Sequence[float]) -> tuple[float, float, int]:
    """Lower end, distance of ticks and number of intervals of an axis that holds the values."""
    low, high = min(values), max(values)
    room = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(room / INTERVALS))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor * INTERVALS >= room * 0.999)
    start = math.floor(low / step + 1e-9) * step
    count = max(1, math.ceil((high - start) / step - 1e-9))
    return start, step, count


def _unit_of_ticks(spec: MetricSpec, largest: float) -> tuple[float, str]:
    """What values are divided by for the labels of ticks, and what stands after the number, as in MetricSpec.text."""
    match spec.unit:
        case "share":
            return 0.01, "%"
        case "%":
            return 1.0, "%"
        case "bytes":
            divisor = 1.0
            while divisor * 1024 <= largest and divisor < 1024.0**4:
                divisor *= 1024
            return divisor, f" {bytes_text(divisor).split()[1]}"
    return 1.0, ""


def _tick(value: float, distance: float) -> str:
    """A label with the decimals that its neighbours at that distance need."""
    if abs(value) < distance * 1e-6:
        return "0"
    decimals = next((digits for digits in range(6) if math.isclose(round(distance, digits), distance)), None)
    text = f"{value:.4g}" if decimals is None else f"{value:,.{decimals}f}"
    return text.replace("-", "−")


def _across(first: int, last: int) -> list[str]:
    """Three or two evenly spaced labels."""
    middle = (first + last) / 2
    return [formatting.whole(at) for at in ((first, middle, last) if middle % 1 == 0 else (first, last))]


def joined(spots: Sequence[tuple[float, float]]) -> str:
    """Places as the attribute `points` of SVG."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
