"""Where the time of a run went: tracks of one iteration, shares of the newest ones, cost, and a trace."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET

from webapp.core.streaming import streamed
from webapp.pages.run_page import run_page
from webapp.runs import timeline
from webapp.runs.access import get_run
from webapp.runs.models import Run, TimelinePart
from webapp.runs.run_cost import run_cost
from webapp.teams.decorators import account_optional

ZOOMS = (1, 2, 4, 8)
MAX_DIGITS = 7


@account_optional
@require_GET
def run_timeline(request: HttpRequest, slug: str) -> HttpResponse:
    """Show `?iteration=` (by default the newest), or `?start=1`, and below it the same of another run, `?with=`."""
    run = get_run(request.user, slug)
    start, iteration = "start" in request.GET, _whole(request.GET.get("iteration", ""))
    part = timeline.find_part(run, iteration, start=start)
    if part is None and (iteration is not None or start):
        raise Http404(f"{run.title} has no record of the time of this iteration.")
    other = _other(request)
    parts = [(run, part), (other, timeline.find_part(other, iteration, start=start) if other else None)]
    length = max((found.seconds for _, found in parts if found is not None), default=0.0)
    zoom = _whole(request.GET.get("zoom", ""))
    recorded, shares = timeline.recent_shares(run)
    return run_page(
        request,
        run,
        "run-curves",
        "runs/timeline.html",
        part=part,
        pictures=[(owner, timeline.draw(found, length)) for owner, found in parts if found is not None],
        other=other,
        other_text=request.GET.get("with", ""),
        zoom=zoom if zoom in ZOOMS else 1,
        links=_links(request, run, part) if part is not None else {},
        recorded=recorded,
        shares=shares,
        cost=run_cost(run),
    )


@account_optional
@require_GET
def run_trace(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Send the whole timeline as a trace that ui.perfetto.dev opens."""
    run = get_run(request.user, slug)
    chunks = (text.encode() for text in timeline.trace_text(run))
    return streamed(request, chunks, "application/json", f"{run.slug}-trace.json", compressible=True)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def _other(request: HttpRequest) -> Run | None:
    """Return the run to compare with, named by its slug or address; None without one."""
    slug = request.GET.get("with", "").strip().rstrip("/").rpartition("/")[2]
    return get_run(request.user, slug) if slug else None


def _links(request: HttpRequest, run: Run, part: TimelinePart) -> dict[str, object]:
    """Return the links to the recorded iterations before and after this one, to the start, and to each zoom."""
    kept = {name: request.GET[name] for name in ("with", "zoom") if request.GET.get(name)}
    numbers = sorted(set(run.timeline.filter(part=TimelinePart.Part.ITERATION).values_list("iteration", flat=True)))
    started = part.part == TimelinePart.Part.START
    here = {"start": 1} if started else {"iteration": part.iteration}
    links: dict[str, object] = {
        "zooms": [(factor, f"?{urlencode(kept | here | {'zoom': factor})}") for factor in ZOOMS],
        "start": "" if started else f"?{urlencode(kept | {'start': 1})}",
    }
    before = [] if started else [number for number in numbers if number < part.iteration]
    after = [number for number in numbers if number > part.iteration]
    for name, found in (("previous", before[-1:]), ("next", after[:1])):
        links[name] = f"?{urlencode(kept | {'iteration': found[0]})}" if found else ""
    return links
