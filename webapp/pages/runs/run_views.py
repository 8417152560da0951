"""Live tab of a run, and redirects to its trajectories."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from trainer.metrics.training_use import TRAINING_USES
from webapp.explorer import highlights, run_result
from webapp.live.snapshot import rollout_shape, snapshot
from webapp.pages.run_page import run_page
from webapp.pages.runs import live_layout
from webapp.pages.runs.curves_page import curves_page
from webapp.runs import setting_changes
from webapp.runs.access import get_run
from webapp.runs.faults import list_faults
from webapp.runs.launch import variations
from webapp.runs.launch.recovery import last_healthy_checkpoint, recovery
from webapp.runs.models import Run
from webapp.runs.run_files import model_name
from webapp.teams.access import role_in_team
from webapp.teams.decorators import account_optional
from webapp.trajectories.first_successes import newest_first_successes
from webapp.trajectories.models import Trajectory

MAX_DIGITS = 9
"""Maximum digits of an iteration's number in a request."""
READERS = {
    Run.Visibility.PRIVATE: "Its author and the team's admins can open it.",
    Run.Visibility.TEAM: "Members of the team can open it.",
    Run.Visibility.LINK: "Anyone with the link can open it.",
}
"""Who can open the link to a run."""


@account_optional
@require_GET
@never_cache
def run_live(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the live page: rollout grid, selected trajectory, curves, Echo Trap panel; first the result of an ended run.

    A run without attempts, such as one of transformers' Trainer, shows its curves instead.
    """
    run = get_run(request.user, slug)
    has_attempts = live_layout.has_attempts(run)
    if not has_attempts and (recorded := live_layout.recorded_text(run)):
        judged = _judged_context(request, run) if live_layout.is_judged(run) else {}
        return curves_page(request, run, recorded=recorded, **judged)
    healthy = last_healthy_checkpoint(run) if run.policy_condition else None
    context = {
        "wall_shape": rollout_shape(run),
        "wall_height": live_layout.wall_height(*rollout_shape(run)),
        "intro": live_layout.intro(run) if has_attempts and live_layout.INTRO_COOKIE not in request.COOKIES else "",
        "faults": list_faults(run.faults),
        "training_labels": json.dumps({use: words.label for use, words in TRAINING_USES.items()}),
        "charts_without_data": live_layout.charts_without_data(run),
        "recovery": recovery(run, healthy),
        "healthy_checkpoint": healthy,
        "rewindable": healthy is not None and not setting_changes.refusal(run, rewinds=True),
    } | _result_context(request, run)
    if "result" not in context:
        context["found"] = newest_first_successes(run)
    return run_page(request, run, "run", "runs/live.html", **context)


@account_optional
@require_GET
@never_cache
def run_faults(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the panel of a sick run, for the live page; empty for a run without faults."""
    run = get_run(request.user, slug)
    return render(request, "runs/_faults.html", {"run": run, "faults": list_faults(run.faults)})


def _judged_context(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Return the result and the Echo Trap panel of a run without attempts, for the page with its curves."""
    inside = role_in_team(request.user, run.team_id) is not None
    return {"with_trap": True, "snapshot": snapshot(run, inside=inside)} | _result_context(request, run)


def _result_context(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Return the result, and addresses, file names and variations for its card. Empty without a result."""
    result = run_result.of_run(run)
    if result is None:
        return {}
    context: dict[str, Any] = {
        "result": result,
        "run_address": request.build_absolute_uri(reverse("run", args=[run.slug])),
        "readers": READERS[Run.Visibility(run.visibility)],
        "variations": variations.of_config(run.config),
    }
    if result.checkpoint is not None:
        context["model_folder"] = model_name(run, result.checkpoint)
        context["model_address"] = request.build_absolute_uri(
            reverse("api:download_model", kwargs={"slug": run.slug, "iteration": result.checkpoint})
        )
    return context


@account_optional
@require_GET
@never_cache
def run_snapshot(request: HttpRequest, slug: str) -> JsonResponse:
    """Return a snapshot of the live page, for browsers with an outdated cursor."""
    run = get_run(request.user, slug)
    return JsonResponse(snapshot(run, inside=role_in_team(request.user, run.team_id) is not None))


@account_optional
@require_GET
@never_cache
def run_highlights(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the highlights of `?iteration=`, for the reel of the live page."""
    run = get_run(request.user, slug)
    number = request.GET.get("iteration", str(run.phase_iteration))
    if not (number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS):
        return JsonResponse({"error": "iteration must be a whole number."}, status=400)
    chosen = highlights.of_iteration(run, int(number))
    return JsonResponse({"iteration": int(number), "highlights": [highlight.as_data() for highlight in chosen]})


@account_optional
@require_GET
def run_trajectory(request: HttpRequest, slug: str, key: str) -> HttpResponse:
    """Redirect from a trajectory's journal key to its page."""
    run = get_run(request.user, slug)
    trajectory = Trajectory.objects.filter(run=run, key=key).order_by("-attempt").values_list("slug", flat=True).first()
    if trajectory is None:
        messages.warning(request, f"This run has no attempt {key}.")
        return redirect("run-trajectories", slug)
    return redirect("trajectory", trajectory)
