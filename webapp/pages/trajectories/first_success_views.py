"""“It got it”: the puzzles that a run solved for the first time in an evaluation, with the film of the hardest one."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.explorer.filmstrip import choose
from webapp.explorer.related import same_prompt
from webapp.pages.film_panel import film_panel, film_picture
from webapp.runs.access import get_run
from webapp.runs.main_suite import main_suite
from webapp.runs.models import Evaluation, Run
from webapp.teams.decorators import account_optional
from webapp.trajectories.first_successes import FirstSuccesses, first_successes
from webapp.trajectories.models import Trajectory


@account_optional
@require_GET
@never_cache
def run_first_successes(request: HttpRequest, slug: str) -> HttpResponse:
    """The first successes in the evaluation of `?iteration=`, or in the newest one.

    With the header `X-Fragment`, the note of the live page; 204 if there are none.
    """
    run = get_run(request.user, slug)
    evaluations = list(Evaluation.objects.filter(run=run).order_by("iteration"))
    suite = main_suite(evaluations, run.environment)
    iterations = [str(one.iteration) for one in evaluations if one.suite == suite]
    requested = request.GET.get("iteration", iterations[-1] if iterations else "")
    if requested not in iterations and "iteration" in request.GET:
        raise Http404(f"This run has no evaluation at iteration {requested[:20]}.")
    found = first_successes(run, suite, int(requested)) if requested else None
    context: dict[str, Any] = {"page": "runs", "run": run, "found": found, "suite": suite}
    if request.headers.get("X-Fragment"):
        return render(request, "runs/_first_successes.html", context) if found else HttpResponse(status=204)
    if found is not None:
        context |= _film(request, run, found)
    return render(request, "runs/first_successes.html", context)


def _film(request: HttpRequest, run: Run, found: FirstSuccesses) -> dict[str, Any]:
    """The failures at the hardest puzzle and its success as a film, and the preview of the page's link."""
    hardest = Trajectory.objects.select_related("group", "run").get(slug=found.hardest.slug)
    chosen = choose(same_prompt(hardest), hardest, until_success=True)
    context = film_panel(chosen, hardest) | {"trajectory": hardest}
    address = reverse("run-first-successes", args=[run.slug])
    address = request.build_absolute_uri(f"{address}?{urlencode({'iteration': found.iteration})}")
    context["address"] = address
    if run.visibility == Run.Visibility.LINK:
        context["meta"] = {
            "title": f"It got it: {hardest.group.environment}",
            "description": f"{found.sentence} A language model learns by reinforcement learning; watch its attempts.",
            "url": address,
            "picture": film_picture(request, hardest, chosen),
        }
    return context
