"""Places of iterations on the axes of curves, for points that the site computes."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Max

from webapp.runs.models import MetricPoint, Run


def curve_axes(run: Run, iterations: Iterable[int]) -> dict[int, tuple[int, float]]:
    """Return tokens and seconds of these iterations, as the run's other metrics have them. One query."""
    points = MetricPoint.objects.filter(run=run, iteration__in=list(iterations)).values("iteration")
    rows = points.values_list("iteration", Max("tokens"), Max("seconds"))
    return {iteration: (tokens, seconds) for iteration, tokens, seconds in rows}
