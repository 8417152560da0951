"""Grid of a run's tasks by iterations: the page and its data."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from webapp.explorer.task_grid import Part, load_grid, load_parts
from webapp.pages.run_page import run_page
from webapp.runs.access import get_run
from webapp.runs.models import Run
from webapp.teams.decorators import account_optional


@account_optional
@require_GET
def run_tasks(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the grid of one part of the run, chosen by `?split=` and `?suite=`; by default of its own suite."""
    run = get_run(request.user, slug)
    parts = load_parts(run)
    part = _chosen(request, run, parts) if parts else None
    return run_page(request, run, "run-evaluation", "runs/tasks.html", parts=parts, part=part)


@account_optional
@require_GET
def run_tasks_data(request: HttpRequest, slug: str) -> HttpResponse:
    """Send the grid of one part as JSON."""
    run = get_run(request.user, slug)
    part = _chosen(request, run, load_parts(run))
    return JsonResponse(load_grid(run, part.split, part.suite))


def _chosen(request: HttpRequest, run: Run, parts: list[Part]) -> Part:
    """Return the requested part; without a request the first one in which tasks repeat, or else the first one."""
    split, suite = request.GET.get("split"), request.GET.get("suite", "")
    if split is None:
        found = next((part for part in parts if part.repeats), None) or next(iter(parts), None)
    else:
        found = next((part for part in parts if (part.split, part.suite) == (split, suite)), None)
    if found is None:
        raise Http404(f"{run.title} has no {run.task_noun}s of this kind.")
    return found
