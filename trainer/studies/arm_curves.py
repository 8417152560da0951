"""The curve of an arm: mean and standard deviation over its runs, at each iteration that one of them has reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from trainer.metrics.charts import Points, Series
from trainer.metrics.spec import Unit


@dataclass(frozen=True)
class BandPoint:
    """Mean over the runs that have begun and not ended there, and the standard deviation; 0 for a single run."""

    iteration: float
    mean: float
    deviation: float
    runs: int


def band(lines: Sequence[Points], stretch: int = 1) -> list[BandPoint]:
    """Mean ± deviation at each iteration at which a run has a point; between two points of a run it is interpolated.

    Args:
        lines: the points of each run, in order of iteration.
        stretch: iterations of other arms that correspond to one of this arm.
    """
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
            result.append(BandPoint(iteration * stretch, fmean(values), deviation, len(values)))
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


def series(label: str, colour: int, points: Sequence[BandPoint], unit: Unit) -> Series:
    """The line of an arm with its band where several runs are; bands of shares stay within 0 and 1."""
    low, high = (0.0, 1.0) if unit == "share" else (-math.inf, math.inf)
    ends = [
        (point.iteration, max(low, point.mean - point.deviation), min(high, point.mean + point.deviation))
        for point in points
        if point.runs > 1
    ]
    return Series(label, [(point.iteration, point.mean) for point in points], colour, band=ends)
