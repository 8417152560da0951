"""Live, configuration and log tabs of a run, and redirects to its trajectories."""

from __future__ import annotations

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from trainer.config.files import ordered_dump
from webapp.live.snapshot import snapshot
from webapp.pages.run_page import run_page
from webapp.runs.access import get_run, get_run_of_team
from webapp.runs.models import Alarm
from webapp.runs.run_files import log_tail
from webapp.teams.decorators import account_optional
from webapp.trajectories.models import Trajectory


@account_optional
@require_GET
@never_cache
def run_live(request: HttpRequest, slug: str) -> HttpResponse:
    """Live page: rollout grid, selected trajectory, curves, Echo Trap panel."""
    return run_page(request, get_run(request.user, slug), "run", "runs/live.html")


@account_optional
@require_GET
@never_cache
def run_snapshot(request: HttpRequest, slug: str) -> JsonResponse:
    """Snapshot of the live page, for browsers whose cursor is too old."""
    return JsonResponse(snapshot(get_run(request.user, slug)))


@account_optional
@require_GET
def run_configuration(request: HttpRequest, slug: str) -> HttpResponse:
    """The complete RunConfig as YAML, as the command line accepts it."""
    run = get_run(request.user, slug)
    text = yaml.safe_dump(ordered_dump(run.config), sort_keys=False, allow_unicode=True)
    if request.GET.get("download"):
        response = HttpResponse(text, content_type="application/yaml; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{run.slug}.yaml"'
        return response
    return run_page(request, run, "run-configuration", "runs/configuration.html", text=text)


@login_required
@require_GET
@never_cache
def run_log(request: HttpRequest, slug: str) -> HttpResponse:
    """End of the trainer's log, alarms and notices."""
    run = get_run_of_team(request.user, slug)
    alarms = list(Alarm.objects.filter(run=run).order_by("-seq")[:20])
    notices = list(run.notices.order_by("-seq")[:50])
    return run_page(request, run, "run-log", "runs/log.html", text=log_tail(run), alarms=alarms, notices=notices)


@account_optional
@require_GET
def run_trajectory(request: HttpRequest, slug: str, key: str) -> HttpResponse:
    """Redirect from a trajectory's journal key to its page."""
    run = get_run(request.user, slug)
    trajectory = Trajectory.objects.filter(run=run, key=key).order_by("-attempt").values_list("slug", flat=True).first()
    if trajectory is None:
        messages.warning(request, f"This run has no trajectory {key}.")
        return redirect("run-trajectories", slug)
    return redirect("trajectory", trajectory)
