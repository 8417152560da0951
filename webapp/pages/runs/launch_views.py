"""Launch form with its inline checks, and clones of runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from pydantic import ValidationError

import envs
from trainer.config.environment import recommended_budgets
from trainer.config.files import drop_unsuited, load_preset, validation_errors
from webapp.core.quotas import QuotaExceeded
from webapp.pages.runs.launch_draft import NotClonable, draft, form_start, posted
from webapp.pages.runs.launch_page import form_exports, form_facts, form_layout, launch_page
from webapp.play.launch_pictures import launch_picture
from webapp.runs.actions import RequestRefused
from webapp.runs.launch import catalogue, fields, plain_yaml, variations
from webapp.runs.launch.creation import free_name
from webapp.runs.launch.form import Parsed, from_yaml, list_problems, overlaid
from webapp.runs.launch.planning import LaunchRequest, do_launch, plan_launch
from webapp.runs.launch.recovery import RECOVER, last_healthy_checkpoint, recovery
from webapp.runs.launch.texts import ENVIRONMENT, VARIANT
from webapp.runs.models import Run
from webapp.teams.access import require_writable_teams, signed_in

MAX_PROBLEMS = 20
"""Maximum number of problems of a configuration that a page lists."""
ECHO_TRAP_PRESET = "bandit-starpo-trap"
ECHO_TRAP_KEY = "echo-trap"  # launch key of every click, so that a second one opens the runs of the first


def _explain_not_clonable(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Decorate a view to show the settings that do not fit, instead of the form."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except NotClonable as refusal:
            problems = validation_errors(refusal.error)[:MAX_PROBLEMS] if refusal.error else []
            context = {"page": "launch", "source": refusal.source, "problems": problems}
            return render(request, "runs/not_clonable.html", context, status=409)

    return answer


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@_explain_not_clonable
def launch(request: HttpRequest) -> HttpResponse:
    """Show or submit the launch form.

    `?preset=`, `?environment=` (with `?id=`) and `?clone=` (with `?vary=`) prefill it.
    """
    if request.method != "POST":
        return _blank(request)
    form = posted(request)
    plan = form.planned(request)
    if plan.errors or request.POST.get("do") == "check":
        return launch_page(request, form, plan, status=422 if plan.errors else 200)
    try:
        runs = do_launch(plan, signed_in(request))
    except (QuotaExceeded, RequestRefused) as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        return launch_page(request, form, plan, status=409)
    when = "its model is downloaded and a worker is free" if plan.needs_download else "a worker is free"
    if len(runs) > 1:
        messages.success(request, f"{len(runs)} runs launched as one group. Each starts when {when}.")
        return redirect(f"{reverse('runs')}?{urlencode({'group': runs[0].group, 'team': runs[0].team.slug})}")
    messages.success(request, f"Run launched. It starts when {when}.")
    return redirect("run", runs[0].slug)


def _blank(request: HttpRequest) -> HttpResponse:
    """Show the form before it is posted."""
    query = request.GET
    start = form_start(request, query)
    environment = query.get("environment", "")
    values, question = start.config.model_dump(), ""
    if environment in envs.names():
        settings = _variant_settings(request, environment, query.get("id", ""))
        other = values["environment"]["name"] != environment
        if other or (settings and settings["id"] != values["environment"]["settings"].get("id")):
            values["environment"] |= {"name": environment, "settings": settings}
            values["rollout"] |= recommended_budgets(environment, settings)
            drop_unsuited(values["environment"], values["rollout"])
    elif environment:
        missing = envs.missing_adapters().get(environment)
        messages.warning(request, missing or f"There is no environment “{environment[:100]}”: choose one below.")
    if start.source is not None:
        key = query.get("vary", "")
        offered = {variation.key: variation for variation in variations.of_config(start.source.config)}
        if (
            varied := recovery(start.source, last_healthy_checkpoint(start.source))
            if key == RECOVER
            else offered.get(key)
        ):
            values, question = varied.config.model_dump(), varied.label
        elif key == RECOVER:
            messages.warning(request, "No checkpoint from before the collapse is stored. This clone starts anew.")
    form = draft(start, query, overlaid(values, query))
    return launch_page(request, form, form.planned(request), question=question)


def _variant_settings(request: HttpRequest, environment: str, variant: str) -> dict[str, Any]:
    """Return the setting of an adapter with the variant; empty, with a message, if it cannot be played."""
    if not variant:
        return {}
    if "id" not in envs.settings_model(environment).model_fields:
        messages.warning(request, f"{environment} has no variants: the id “{variant[:100]}” is left out.")
        return {}
    try:
        envs.spec(environment, {"id": variant})
    except ValidationError as error:
        messages.warning(request, "; ".join(text for _, text in validation_errors(error)))
        return {}
    return {"id": variant}


@login_required
@require_POST
@_explain_not_clonable
def launch_yaml(request: HttpRequest) -> HttpResponse:
    """Show the form prefilled from a YAML file or pasted text; nothing is launched."""
    start = form_start(request, request.POST)
    file = request.FILES.get("file")
    text = request.POST.get("yaml", "")
    try:
        if file is not None:
            if (file.size or 0) > plain_yaml.MAX_LENGTH:
                raise ValueError(f"the file is longer than {plain_yaml.MAX_LENGTH:,} bytes")
            text = file.read().decode("utf-8", "replace")
        config = from_yaml(text)
    except ValueError as error:
        all_problems = [f"{where}: {what}" if where else what for where, what in list_problems(error)]
        problems = all_problems[:MAX_PROBLEMS]
        if len(all_problems) > MAX_PROBLEMS:
            problems.append(f"There are {len(all_problems) - MAX_PROBLEMS:,} further problems.")
        form = draft(start, request.POST, Parsed.of(start.config))
        plan = form.planned(request)
        return launch_page(request, form, plan, status=422, yaml_text=text, yaml_problems=problems)
    messages.success(request, "Settings loaded from YAML. Nothing is launched yet.")
    form = draft(start, request.POST, Parsed.of(config))
    return launch_page(request, form, form.planned(request))


@login_required
@require_POST
@_explain_not_clonable
def launch_check(request: HttpRequest) -> HttpResponse:
    """Check the form: an error per field, a summary in the bar, estimates and differences."""
    form = posted(request)
    plan = form.planned(request)
    facts = form_facts(request, form, plan, form_layout(form, plan).settings)
    return render(request, "runs/_check.html", {"swap": True} | facts)


@login_required
@require_POST
@_explain_not_clonable
def launch_exports(request: HttpRequest) -> HttpResponse:
    """Show the form as YAML and as an API call, once a user opens one of them."""
    form = posted(request)
    context = form_exports(request, form, form.planned(request))
    return render(request, "runs/_launch_exports.html", {"swap": True} | context)


@login_required
@require_GET
@_explain_not_clonable
def launch_environment(request: HttpRequest) -> HttpResponse:
    """Show the chosen environment's settings, at their defaults, and its budgets instead of the previous ones.

    For a variant of an adapter, only its budgets.
    """
    start = form_start(request, request.GET)
    name, variant = request.GET.get(ENVIRONMENT, ""), request.GET.get(VARIANT)
    context = {
        "environment_settings": fields.environment_settings(name, {}, {}) if variant is None else [],
        "budgets": fields.budget_settings(_budgets(name, {"id": variant} if variant else {}), start.config),
        "base_word": "was" if start.source else "preset",
    }
    template = "runs/_environment_change.html" if variant is None else "runs/_variant_budgets.html"
    return render(request, template, context)


def _budgets(name: str, settings: dict[str, Any]) -> dict[str, int]:
    """Return the budgets that an environment recommends; empty if it is unknown or refuses the settings."""
    try:
        return recommended_budgets(name, settings) if name in envs.names() else {}
    except ValueError:  # the check of the form shows it
        return {}


@login_required
@require_GET
@cache_control(private=True, max_age=3600)
def launch_boards(request: HttpRequest) -> JsonResponse:
    """Return board and text of a sample of each environment with presets; the page fetches them once it is shown."""
    names = sorted({preset.environment for preset in catalogue.presets()})
    return JsonResponse({name: launch_picture(name) for name in names})


@login_required
@require_POST
def launch_echo_trap(request: HttpRequest) -> HttpResponse:
    """Launch both arms of the Echo Trap preset once, and open the run that collapses.

    A user who has launched them before gets the existing runs. Members who may not launch are refused.
    """
    team, author = require_writable_teams(request.user)[0], signed_in(request)
    launched_before = Run.objects.filter(author=author, launch_key__startswith=f"{ECHO_TRAP_KEY}.").exists()
    requested = LaunchRequest(
        team,
        load_preset(ECHO_TRAP_PRESET),
        ECHO_TRAP_PRESET,
        arms=("starpo", "starpo_s"),
        group=free_name(team, "Echo Trap"),
        key=ECHO_TRAP_KEY,
    )
    try:
        collapsing, *_ = do_launch(plan_launch(requested, Run.objects.listed_for(request.user)), author)
    except (QuotaExceeded, RequestRefused) as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        return redirect("runs")
    if launched_before:
        messages.info(request, "This is the Echo Trap that you launched before. Clone it to see it again.")
    else:
        messages.success(
            request,
            "Two runs launched. This one collapses within a few minutes of training; its twin uses StarPO-S and keeps "
            "learning. Both are in one group, with a button that compares them.",
        )
    return redirect("run", collapsing.slug)
