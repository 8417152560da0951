"""The page with the curves of a run: its tab, and the live page of runs without attempts."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from webapp.pages.run_page import run_page
from webapp.runs import curves, echo_trap, setting_changes
from webapp.runs.models import Checkpoint, Run


def curves_page(request: HttpRequest, run: Run, **context: Any) -> HttpResponse:
    """Show the Curves tab of a run that the user may see.

    Args:
        context: additions of the live page of a run without attempts: a sentence about it, and its result.
    """
    if "values" in request.GET:
        return _values_page(request, run, **context)
    everything = curves.sections(curves.load_metric_names([run.pk]))
    overview, sections = curves.split_overview(everything, run.environment)
    checkpoints = list(Checkpoint.objects.filter(run=run).order_by("iteration").values_list("iteration", flat=True))
    bands, changed = echo_trap.all_bands(run), setting_changes.marks(run)
    return run_page(
        request,
        run,
        "run-curves",
        "runs/curves.html",
        overview=overview,
        sections=sections,
        opened=curves.opened(sections),
        catalog=curves.catalog(everything),
        extent=curves.extent([run.pk], overview, sections),
        bands=bands,
        band_text=echo_trap.bands_text(bands),
        checkpoints=checkpoints,
        changed=changed,
        marks={"bands": [*_warmup_band(run), *bands], "checkpoints": checkpoints, "changes": changed},
        **context,
    )


def _values_page(request: HttpRequest, run: Run, **context: Any) -> HttpResponse:
    """Last and best values of all metrics as a table, which needs no JavaScript."""
    summaries = {name: summary for (_, name), summary in curves.summaries([run.pk]).items()}
    tables = curves.sections(summaries, summaries)
    return run_page(request, run, "run-curves", "runs/curve_values.html", tables=tables, **context)


def _warmup_band(run: Run) -> list[dict[str, Any]]:
    """Return the iterations of the warm-up on demonstrations as a band of the charts; empty without a warm-up."""
    return [{"state": "warmup", "from": -run.warmup_steps, "to": 0}] if run.warmup_steps else []
