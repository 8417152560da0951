"""The form that launches a study, with its inline check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from trainer.metrics import registry
from trainer.studies import catalogue
from webapp.core import ids
from webapp.core.database import database_now
from webapp.core.quotas import QuotaExceeded, quota
from webapp.pages.studies.study_form import ROWS, FormRefused, check_study
from webapp.runs.actions import RequestRefused
from webapp.runs.launch import catalogue as presets
from webapp.runs.launch import estimates
from webapp.runs.launch.fields import full_labels
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.runs.queue.capacity import Capacity, capacity_now
from webapp.studies.actions import do_create_study
from webapp.studies.models import MAX_TITLE_LENGTH
from webapp.studies.study_plan import count_text, list_configs
from webapp.teams.access import require_writable_teams, role_in_team, signed_in
from webapp.teams.models import Membership, Team

MAX_KEY = 40
MAX_LISTED = 12
"""Maximum number of arms that the check lists."""
METRIC = "success/rate"
KINDS = (
    ("catalogue", "Reproduce a figure of the paper", "its arms, claims and figures"),
    ("grid", "Compare settings", "each combination of their values"),
    ("random", "Random search", "trials anywhere in some ranges"),
    ("bayesian", "Bayesian search", "trials where earlier ones promise most (TPE)"),
)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def study_new(request: HttpRequest) -> HttpResponse:
    """Show or submit the form. `?study=`, `?preset=` and `?from=` (a run) prefill it."""
    teams = require_writable_teams(request.user)
    current = capacity_now(database_now())
    if request.method != "POST":
        values = _prefilled(request.GET)
        return render(request, "studies/new.html", _context(request, values, teams, current))
    values = request.POST.dict()
    if choice := values.pop("choose", ""):
        return render(request, "studies/new.html", _context(request, values | {"preset": choice}, teams, current))
    try:
        checked = check_study(values, signed_in(request), teams, _queues(current))
        study = do_create_study(
            checked.launch.request.team,
            signed_in(request),
            checked.spec,
            checked.plan,
            title=values.get("title", "")[:MAX_TITLE_LENGTH],
            scheduling=checked.launch.request.scheduling,
            launch_key=values.get("launch_key", "")[:MAX_KEY],
        )
    except FormRefused:
        refused = _context(request, values, teams, current) | {"posted": True}
        return render(request, "studies/new.html", refused, status=422)
    except (QuotaExceeded, RequestRefused) as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        return render(request, "studies/new.html", _context(request, values, teams, current), status=409)
    messages.success(request, f"Study launched: {count_text(checked.plan, checked.spec)}.")
    return redirect("study", study.slug)


@login_required
@require_POST
def study_check(request: HttpRequest) -> HttpResponse:
    """Show problems of the form, or the number of runs, the estimated time, notes and the queue position."""
    teams = require_writable_teams(request.user)
    facts = _facts(request, request.POST.dict(), teams, capacity_now(database_now()))
    return render(request, "studies/_check.html", facts)


def _prefilled(query: QueryDict) -> dict[str, str]:
    """Return the fields of a form before it is posted."""
    values = {name: str(value) for name, value in query.items()}
    kind = "grid" if values.get("from") or values.get("preset") else "catalogue"
    defaults = {"study": "figure-9", "scale": "pocket", "preset": presets.DEFAULT_PRESET, "metric": METRIC}
    return {"kind": kind} | defaults | values


def _queues(current: Capacity) -> list[str]:
    return list(device_classes.class_choices(current.workers.keys()))


def _facts(request: HttpRequest, values: Mapping[str, str], teams: Sequence[Team], current: Capacity) -> dict[str, Any]:
    author = signed_in(request)
    try:
        checked = check_study(values, author, teams, _queues(current))
    except FormRefused as refusal:
        return {"errors": refusal.errors}
    plan = checked.plan
    time = estimates.expected_time(author, list(list_configs(plan)))
    return {
        "size": count_text(plan, checked.spec),
        "time": time.text if time else "",
        "arms": plan.arms[:MAX_LISTED],
        "more_arms": max(0, len(plan.arms) - MAX_LISTED),
        "default_title": plan.title[:MAX_TITLE_LENGTH],
        "plan": checked.launch,
    }


def _context(request: HttpRequest, values: dict[str, str], teams: Sequence[Team], current: Capacity) -> dict[str, Any]:
    preset = presets.get_preset(presets.choose_preset(values.get("preset", "")))
    return _facts(request, values, teams, current) | {
        "page": "studies",
        "kinds": KINDS,
        "preset": preset,
        "cards": presets.environment_cards(preset),
        "algorithms": presets.arms(preset),
        "policies": presets.policies(preset),
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
            ("paper", "Paper: an NVIDIA GPU" + ("" if current.has_gpus else ", none is online")),
        ],
        "labels": sorted(full_labels().items()),
        "metrics": sorted(name for name, spec in registry.METRICS.items() if spec.better != "none"),
        "rows": [(number, values.get(f"setting_{number}", ""), values.get(f"values_{number}", "")) for number in ROWS],
        "queues": _queues(current),
        "priorities": Run.Priority.options(),
        "may_prefer": any(role_in_team(request.user, team.pk) == Membership.Role.ADMIN for team in teams),
        "most_runs": quota("RUNS_PER_STUDY"),
        "max_title": MAX_TITLE_LENGTH,
    }
