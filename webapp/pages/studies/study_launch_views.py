"""The form that launches a study, with its inline check."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from trainer.config.files import preset_names
from trainer.metrics import registry
from trainer.studies import catalogue
from webapp.core import formatting, ids
from webapp.core.database import database_now
from webapp.core.quotas import QuotaExceeded, quota
from webapp.runs.access import require_may_prefer
from webapp.runs.launch import estimates
from webapp.runs.launch.creation import SchedulingOptions
from webapp.runs.launch.fields import full_labels
from webapp.runs.launch.relevance import has_gpus
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.runs.queue.capacity import Capacity, capacity_now
from webapp.studies.actions import do_create_study
from webapp.studies.models import MAX_TITLE_LENGTH
from webapp.studies.study_form import ROWS, CheckedStudy, check_study
from webapp.studies.study_plan import configs_of, count_words
from webapp.teams.access import require_writable_teams, role_in_team, signed_in
from webapp.teams.models import Membership, Team

DEFAULT_PRESET = "sokoban-starpo_s-pocket"
MAX_KEY = 40
METRIC = "success/rate"
NO_TEAM = "You may not launch runs in this team (any more): choose another one."


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def study_new(request: HttpRequest) -> HttpResponse:
    """The form, and its submission. `?study=`, `?preset=` and `?from=` (a run) prefill it."""
    teams = require_writable_teams(request.user)
    current = capacity_now(database_now())
    if request.method != "POST":
        blank = _prefilled(request.GET)
        return render(
            request, "studies/new.html", _context(request, blank, teams, current, _check(request, blank, current))
        )
    checked = _check(request, request.POST.dict(), current)
    named = request.POST.get("team", "")
    team = next((team for team in teams if team.slug == named), teams[0])
    if named and team.slug != named:
        checked = CheckedStudy(errors={"team": NO_TEAM})
    priority = Run.Priority.named_or_normal(request.POST.get("priority", ""))
    require_may_prefer(request.user, team.pk, priority)
    if checked.spec is None or checked.plan is None:
        context = _context(request, request.POST.dict(), teams, current, checked)
        return render(request, "studies/new.html", context, status=422)
    queue = request.POST.get("queue", "")
    try:
        study = do_create_study(
            team,
            signed_in(request),
            checked.spec,
            checked.plan,
            title=request.POST.get("title", "")[:MAX_TITLE_LENGTH],
            scheduling=SchedulingOptions(queue if queue in _queues(current) else "", None, priority),
            launch_key=request.POST.get("launch_key", "")[:MAX_KEY],
        )
    except QuotaExceeded as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        return render(
            request, "studies/new.html", _context(request, request.POST.dict(), teams, current, checked), status=409
        )
    messages.success(request, f"Study launched: {count_words(checked.plan, checked.spec)}.")
    return redirect("study", study.slug)


@login_required
@require_POST
def study_check(request: HttpRequest) -> HttpResponse:
    """Problems of the form, or the number of runs and the estimated time."""
    require_writable_teams(request.user)
    current = capacity_now(database_now())
    checked = _check(request, request.POST.dict(), current)
    return render(request, "studies/_check.html", _facts(request, current, checked))


def _check(request: HttpRequest, values: dict[str, str], current: Capacity) -> CheckedStudy:
    return check_study(values, Run.objects.of_teams_of(request.user), gpus=has_gpus(current))


def _prefilled(query: QueryDict) -> dict[str, str]:
    """The fields of a form that was not posted yet."""
    values = {name: str(value) for name, value in query.items()}
    kind = "grid" if values.get("from") or values.get("preset") else "catalogue"
    return {"kind": kind, "study": "figure-9", "scale": "pocket", "preset": DEFAULT_PRESET, "metric": METRIC} | values


def _queues(current: Capacity) -> list[str]:
    return list(device_classes.class_choices(current.workers.keys()))


def _facts(request: HttpRequest, current: Capacity, checked: CheckedStudy) -> dict[str, Any]:
    if checked.plan is None or checked.spec is None:
        return {"errors": checked.errors}
    seconds = estimates.expected_seconds(request.user, list(configs_of(checked.plan)))
    free = current.free.get(device_classes.ANY, 0)
    return {
        "errors": {},
        "size": count_words(checked.plan, checked.spec),
        "time": f"about {formatting.duration(seconds)}" if seconds else "",
        "free": free,
        "workers": current.workers.get(device_classes.ANY, 0),
        "arms": checked.plan.arms[:12],
        "more_arms": max(0, len(checked.plan.arms) - 12),
        "default_title": checked.plan.title[:MAX_TITLE_LENGTH],
    }


def _context(
    request: HttpRequest, values: dict[str, str], teams: list[Team], current: Capacity, checked: CheckedStudy
) -> dict[str, Any]:
    facts = _facts(request, current, checked)
    return facts | {
        "page": "studies",
        "values": values,
        "kind": values.get("kind", "catalogue"),
        "launch_key": values.get("launch_key", "")[:MAX_KEY] or ids.token(),
        "teams": teams,
        "plan_labels": [
            (plan.name, f"{catalogue.label(plan.name)}: {plan.title}") for plan in catalogue.STUDIES.values()
        ],
        "scales": [
            ("smoke", "Smoke test: two tiny iterations"),
            ("pocket", "Pocket policy: any machine"),
            ("paper", "Paper: an NVIDIA GPU" + ("" if has_gpus(current) else ", none is online")),
        ],
        "presets": preset_names(),
        "labels": sorted(full_labels().items()),
        "metrics": sorted(name for name, spec in registry.METRICS.items() if spec.better != "none"),
        "rows": [(number, values.get(f"setting_{number}", ""), values.get(f"values_{number}", "")) for number in ROWS],
        "queues": _queues(current),
        "priorities": Run.Priority.options(),
        "may_prefer": any(role_in_team(request.user, team.pk) == Membership.Role.ADMIN for team in teams),
        "most_runs": quota("RUNS_PER_STUDY"),
        "max_title": MAX_TITLE_LENGTH,
    }
