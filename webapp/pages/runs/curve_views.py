"""Curves tab of a run, and its data: JSON in buckets, CSV in full."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.core.formatting import no_formula
from webapp.pages.curve_data import curves_response, requested_names
from webapp.pages.runs.curves_page import curves_page
from webapp.runs import curves
from webapp.runs.access import get_run
from webapp.runs.models import Run
from webapp.teams.decorators import account_optional


@account_optional
@require_GET
@never_cache
def run_curves(request: HttpRequest, slug: str) -> HttpResponse:
    """All metrics of the run by section; with `values` a table of their last and best values."""
    return curves_page(request, get_run(request.user, slug))


@account_optional
@require_GET
@never_cache
def run_curves_data(request: HttpRequest, slug: str) -> JsonResponse:
    """Buckets of `names`: x=iteration|tokens|seconds, from, to, width (points per curve)."""
    return curves_response(request.GET, [get_run(request.user, slug)])


@account_optional
@require_GET
@never_cache
def run_curves_csv(request: HttpRequest, slug: str) -> HttpResponse:
    """Send all values of `names` (default: all metrics), one line per iteration."""
    run = get_run(request.user, slug)
    names = requested_names(request.GET) or curves.load_metric_names([run.pk])
    response = HttpResponse(_csv(run, names), content_type="text/csv; charset=utf-8")
    what = names[0].replace("/", "-") if len(names) == 1 else "metrics"
    response["Content-Disposition"] = f'attachment; filename="{run.slug}-{_plain(what)}.csv"'
    return response


def _csv(run: Run, names: Sequence[str]) -> str:
    rows: dict[int, dict[str, Any]] = {}
    points = run.metrics.filter(name__in=names).order_by("iteration")
    columns = ("iteration", "tokens", "seconds", "name", "value")
    for iteration, tokens, seconds, name, value in points.values_list(*columns):
        row = rows.setdefault(iteration, {"iteration": iteration})
        row |= {"tokens": tokens, "seconds": seconds, name: value}
    return _csv_text(["iteration", "tokens", "seconds", *names], rows.values())


def _csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writerow({name: no_formula(name) for name in columns})
    writer.writerows(rows)
    return text.getvalue()


def _plain(name: str) -> str:
    """Return a name that is safe in a file name."""
    return "".join(character if character.isalnum() or character in "-_." else "_" for character in name)
