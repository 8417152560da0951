"""The curves tab of a run and the data behind charts: JSON in buckets, CSV in full. Cutting is done in curves.py."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from trainer.metrics.trap_signals import SIGNS
from webapp.pages.runs.run_views import run_page
from webapp.runs import curves, echo_trap
from webapp.runs.access import get_run
from webapp.runs.curves import AXES, Axis, Curves
from webapp.runs.models import Checkpoint, Run
from webapp.teams.decorators import account_optional

NARROWEST, WIDEST = 30, 4000
BAD_SIDE = {sign.name: sign.bad for sign in SIGNS}


@account_optional
@require_GET
@never_cache
def run_curves(request: HttpRequest, slug: str) -> HttpResponse:
    """Every metric of the run, in named sections; without JavaScript its last and best values."""
    run = get_run(request.user, slug)
    summaries = {name: summary for (_, name), summary in curves.summaries([run.pk]).items()}
    sections = curves.sections(summaries, summaries)
    kept = list(Checkpoint.objects.filter(run=run).order_by("iteration").values_list("iteration", flat=True))
    bands = echo_trap.all_bands(run)
    return run_page(
        request,
        run,
        "run-curves",
        "runs/curves.html",
        sections=sections,
        bad_side=BAD_SIDE,
        count=sum(len(section.charts) for section in sections),
        bands=bands,
        band_words=echo_trap.words_of(bands),
        checkpoints=kept,
        marks={"bands": bands, "checkpoints": kept},
    )


@account_optional
@require_GET
@never_cache
def run_curves_data(request: HttpRequest, slug: str) -> JsonResponse:
    """Buckets of `names` (all without it): x=iteration|tokens|seconds, from, to, width (points for each curve)."""
    run = get_run(request.user, slug)
    return answer(request.GET, [run], lambda: curves.names_of(run))


@account_optional
@require_GET
@never_cache
def run_curves_csv(request: HttpRequest, slug: str) -> HttpResponse:
    """Every value of `names` (all without it), one line for each iteration."""
    run = get_run(request.user, slug)
    names = asked_names(request.GET) or curves.names_of(run)
    response = HttpResponse(_csv(run, names), content_type="text/csv; charset=utf-8")
    what = names[0].replace("/", "-") if len(names) == 1 else "metrics"
    response["Content-Disposition"] = f'attachment; filename="{run.slug}-{_plain(what)}.csv"'
    return response


def answer(query: QueryDict, runs: Sequence[Run], all_names: Any) -> JsonResponse:
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
        asked_names(query) or all_names(),
        axis=axis,
        low=low,
        high=high,
        width=max(NARROWEST, min(WIDEST, width)),
    )
    told = {run.slug: _columns(found.curves, run.pk, axis) for run in runs}
    return JsonResponse({"x": axis, "stride": found.stride, "runs": told})


def asked_names(query: QueryDict) -> list[str]:
    """`names=a,b` and `names=a&names=b` alike; no name twice."""
    return list(dict.fromkeys(name for part in query.getlist("names") for name in part.split(",") if name))


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


def _csv(run: Run, names: Sequence[str]) -> str:
    rows: dict[int, dict[str, Any]] = {}
    points = run.metrics.filter(name__in=names).order_by("iteration")
    columns = ("iteration", "tokens", "seconds", "name", "value")
    for iteration, tokens, seconds, name, value in points.values_list(*columns):
        row = rows.setdefault(iteration, {"iteration": iteration})
        row |= {"tokens": tokens, "seconds": seconds, name: value}
    return _written(["iteration", "tokens", "seconds", *names], rows.values())


def _written(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writerow({name: _plain(name) if name[:1] in "=+-@\t" else name for name in columns})
    writer.writerows(rows)
    return text.getvalue()


def _plain(name: str) -> str:
    """For file names and for the first line of a table: spreadsheets take some characters for a formula."""
    return "".join(character if character.isalnum() or character in "-_." else "_" for character in name)
