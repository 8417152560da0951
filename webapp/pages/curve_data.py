"""Curves as JSON, in buckets, for the charts of the curves tab and of the comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import JsonResponse, QueryDict

from webapp.runs import curves
from webapp.runs.curves import AXES, Axis, Curves
from webapp.runs.models import Run

NARROWEST, WIDEST = 30, 4000


def requested_names(query: QueryDict) -> list[str]:
    """`names=a,b` and `names=a&names=b` alike; no name twice."""
    return list(dict.fromkeys(name for part in query.getlist("names") for name in part.split(",") if name))


def curves_response(query: QueryDict, runs: Sequence[Run], all_names: Any) -> JsonResponse:
    """The buckets that `query` asks for, of these runs, or what is wrong with the question."""
    axis = query.get("x", "iteration")
    if axis not in AXES:
        return _refused(f"x must be one of {', '.join(AXES)}, not {axis[:40]!r}.")
    try:
        low, high = _number(query, "from", -math.inf), _number(query, "to", math.inf)
        width = int(_number(query, "width", 3 * curves.BUCKETS))
    except ValueError as problem:
        return _refused(str(problem))
    found = curves.cut(
        [run.pk for run in runs],
        requested_names(query) or all_names(),
        axis=axis,
        low=low,
        high=high,
        width=max(NARROWEST, min(WIDEST, width)),
    )
    told = {run.slug: _columns(found.curves, run.pk, axis) for run in runs}
    return JsonResponse({"x": axis, "stride": found.stride, "runs": told})


def _columns(found: Curves, run: int, axis: Axis) -> Mapping[str, Any]:
    return {
        name: {"iteration": [point.iteration for point in points]}
        | ({} if axis == "iteration" else {"x": [point.x for point in points]})
        | {"value": [_short(point.value) for point in points]}
        for (owner, name), points in found.items()
        if owner == run
    }


def _short(value: float) -> float:
    """Eight digits: more than any screen can show."""
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
