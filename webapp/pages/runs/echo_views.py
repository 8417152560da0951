"""The echo meter of a run: a part of the live page, and a picture."""

from __future__ import annotations

from functools import lru_cache

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from trainer.metrics.charts import stream_document
from webapp.explorer.echo_meter import EchoMeter, echo_meter
from webapp.runs.access import get_run
from webapp.runs.models import Run
from webapp.teams.decorators import account_optional


@account_optional
@require_GET
@never_cache
def run_echo(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the meter as a part of a page; 204 if there is nothing to count."""
    run = get_run(request.user, slug)
    meter = _get_meter(run)
    if meter is None:
        return HttpResponse(status=204)
    return render(request, "runs/_echo.html", {"run": run, "meter": meter})


@account_optional
@require_GET
@never_cache
def run_echo_svg(request: HttpRequest, slug: str) -> HttpResponse:
    """Send the meter as a picture, for reports and slides."""
    run = get_run(request.user, slug)
    meter = _get_meter(run)
    if meter is None:
        raise Http404("No attempt of this run's training has a thought yet.")
    return HttpResponse(_document(run, meter), content_type="image/svg+xml")


def _get_meter(run: Run) -> EchoMeter | None:
    return _counted(run.pk, run.rebuilds, run.attempt, run.iteration)


@lru_cache(maxsize=64)
def _counted(run_id: int, rebuilds: int, attempt: int, iteration: int) -> EchoMeter | None:
    """Return the meter after that iteration. Cached for all visitors of the run."""
    return echo_meter(run_id)


def _document(run: Run, meter: EchoMeter) -> str:
    ends = (f"iteration {meter.first.iteration}", f"iteration {meter.newest.iteration}")
    note = f"{meter.newest.sentence} “{meter.thought}”. {meter.variety}"
    return stream_document(f"Echo meter: {run.title}", meter.bands, ends, note)
