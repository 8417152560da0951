"""Curve data as JSON buckets, for the charts of the curves tab and the comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import JsonResponse, QueryDict

from webapp.runs import curves
from webapp.runs.curves import AXES, Axis, Curves
from webapp.runs.models import Run

MIN_BUCKETS, MAX_BUCKETS = 30, 4000
MAX_NAMES = 200
"""Metrics of one response: pages request the charts in view, and each may have four partners."""


def requested_names(query: QueryDict) -> list[str]:
    """Return distinct metric names of the query: `names=a,b` or `names=a&names=b`."""
    return list(dict.fromkeys(name for part in query.getlist("names") for name in part.split(",") if name))


def curves_response(query: QueryDict, runs: Sequence[Run]) -> JsonResponse:
    """Buckets of the runs' curves for the query, or an error with status 400."""
    names = requested_names(query)
    if not 0 < len(names) <= MAX_NAMES:
        return _refused(f"names must be 1 to {MAX_NAMES} metrics, not {len(names)}; curves.csv has every metric.")
    axis = query.get("x", "iteration")
    if axis not in AXES:
        return _refused(f"x must be one of {', '.join(AXES)}, not {axis[:40]!r}.")
    try:
        low, high = _number(query, "from", -math.inf), _number(query, "to", math.inf)
        width = int(_number(query, "width", 3 * curves.BUCKETS))
    except ValueError as problem:
        return _refused(str(problem))
    selection = curves.cut(
        [run.pk for run in runs],
        names,
        axis=axis,
        low=low,
        high=high,
        width=max(MIN_BUCKETS, min(MAX_BUCKETS, width)),
    )
    by_run = {run.slug: _columns(selection.curves, run.pk, axis) for run in runs}
    return JsonResponse({"x": axis, "stride": selection.stride, "runs": by_run})


def _columns(selected: Curves, run: int, axis: Axis) -> Mapping[str, Any]:
    return {
        name: {"iteration": [point.iteration for point in points]}
        | ({} if axis == "iteration" else {"x": [point.x for point in points]})
        | {"value": [_short(point.value) for point in points]}
        for (owner, name), points in selected.items()
        if owner == run
    }


def _short(value: float) -> float:
    """Return the value rounded to eight digits."""
    return float(f"{value:.8g}")


def _number(query: QueryDict, name: str, default: float) -> float:
    text = query.get(name, "")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number) or (name == "width" and math.isinf(number)):
        raise ValueError(f"{name} must be a number, not {text[:40]!r}.")
    return number


def _refused(problem: str) -> JsonResponse:
    return JsonResponse({"error": problem}, status=400)
