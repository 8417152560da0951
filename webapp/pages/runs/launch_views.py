"""Launch form with its inline checks, and clones of runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
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
from trainer.config.run import RunConfig
from webapp.core.database import database_now
from webapp.core.quotas import QuotaExceeded
from webapp.pages.runs.launch_page import (
    MAX_LAUNCH_KEY,
    LaunchBase,
    LaunchOptions,
    NotClonable,
    exports,
    form_facts,
    form_layout,
    group_name,
    launch_base,
    launch_options,
    launch_page,
    planned_runs,
    readable_runs,
)
from webapp.play.launch_pictures import launch_picture
from webapp.runs.access import require_may_prefer
from webapp.runs.actions import RequestRefused
from webapp.runs.inputs import allowed_inputs
from webapp.runs.launch import catalogue, experiment, fields, form, plain_yaml, relevance, variations
from webapp.runs.launch.creation import SchedulingOptions, do_create_group, do_create_run, free_name
from webapp.runs.launch.experiment import ExperimentRefused, PlannedRun
from webapp.runs.launch.texts import ENVIRONMENT, VARIANT
from webapp.runs.model_cards import cards
from webapp.runs.models import Run
from webapp.runs.queue.capacity import capacity_now
from webapp.runs.stored_models import model_requests
from webapp.teams.access import require_writable_teams, signed_in

MAX_PROBLEMS = 20
"""Problems of a configuration that a page lists."""
ECHO_TRAP_PRESET = "bandit-starpo-trap"
ECHO_TRAP_KEY = "echo-trap"  # launch key of every click, so that a second one opens the runs of the first


def _explain_not_clonable(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A page that lists what does not fit, instead of the form."""

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
    """Launch form and its submission. `?preset=`, `?environment=` (with `?id=`) and `?clone=` (with `?vary=`) prefill
    it."""
    if request.method != "POST":
        return _blank(request)
    origin = launch_base(request, request.POST)
    options = launch_options(request.POST, origin)
    checked = form.check(request.POST.dict(), readable_runs(request))
    planned: list[PlannedRun] = []
    refused = bool(options.errors)
    if checked.config is not None:
        try:
            planned = planned_runs(checked.config, origin, options)
        except ExperimentRefused:
            refused = True
    if checked.config is None or refused or request.POST.get("do") == "check":
        response = launch_page(request, origin, checked.data, checked.errors)
        response.status_code = 422 if checked.errors or refused else 200
        return response
    download = model_requests.needs_download(checked.config.policy.model)
    try:
        with transaction.atomic():
            if download:
                _request_download(request, options, checked.config)
            runs = _create(request, origin, options, checked.config, planned)
    except (QuotaExceeded, RequestRefused) as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        response = launch_page(request, origin, checked.data, {})
        response.status_code = 409
        return response
    if len(runs) > 1:
        when = "its model is downloaded and a worker is free" if download else "a worker is free"
        messages.success(request, f"{len(runs)} runs launched as one group. Each starts when {when}.")
        return redirect(f"{reverse('runs')}?{urlencode({'group': runs[0].group, 'team': runs[0].team.slug})}")
    starts = "its model is downloaded and a worker is free" if download else "a worker is free"
    messages.success(request, f"Run launched. It starts when {starts}.")
    return redirect("run", runs[0].slug)


def _request_download(request: HttpRequest, options: LaunchOptions, config: RunConfig) -> None:
    """Request the model for a worker that can take the run. Raises RequestRefused, QuotaExceeded."""
    current = capacity_now(database_now())
    queue, _ = options.scheduling.resolved(config, current.workers.keys())
    worker = cards.suitable_worker(config, queue)
    model_requests.do_request_download(signed_in(request), config.policy.model, worker)


def _create(
    request: HttpRequest, origin: LaunchBase, options: LaunchOptions, config: RunConfig, planned: list[PlannedRun]
) -> list[Run]:
    """Create the run, or all runs of the experiment. Raises QuotaExceeded."""
    team, author = origin.team_of(request.POST.get("team", "")), signed_in(request)
    require_may_prefer(request.user, team.pk, options.scheduling.priority)
    key = request.POST.get("launch_key", "")[:MAX_LAUNCH_KEY]
    if len(planned) > 1:
        group = options.group or free_name(team, group_name(options, config))
        return do_create_group(
            team,
            author,
            planned,
            group=group,
            scheduling=options.scheduling,
            visibility=options.visibility,
            launch_key=key,
        )
    run = do_create_run(
        team,
        author,
        planned[0].config,
        preset=planned[0].preset,
        scheduling=options.scheduling,
        visibility=options.visibility,
        launch_key=key,
        group=options.group,
    )
    return [run]


def _blank(request: HttpRequest) -> HttpResponse:
    """The form before anything was posted."""
    query = request.GET
    origin = launch_base(request, query)
    environment = query.get("environment", "")
    values, question = origin.base.model_dump(), ""
    if environment in envs.names():
        settings = _variant_settings(request, environment, query.get("id", ""))
        other = values["environment"]["name"] != environment
        if other or (settings and settings["id"] != values["environment"]["settings"].get("id")):
            values["environment"] |= {"name": environment, "settings": settings}
            values["rollout"] |= recommended_budgets(environment, settings)
            drop_unsuited(values["environment"])
    elif environment:
        missing = envs.missing_adapters().get(environment)
        messages.warning(request, missing or f"There is no environment “{environment[:100]}”: choose one below.")
    if origin.source is not None:
        offered = {variation.key: variation for variation in variations.of_config(origin.source.config)}
        if varied := offered.get(query.get("vary", "")):
            values, question = varied.config.model_dump(), varied.label
    kept = form.overlaid(values, query)
    if kept.config is None:
        return launch_page(request, origin, kept.data, kept.errors)
    values = kept.config.model_dump()
    return launch_page(request, origin, values, _problems(request, values), question=question)


def _variant_settings(request: HttpRequest, environment: str, variant: str) -> dict[str, Any]:
    """Settings of an adapter that choose the variant of that id; none, with a message, if it cannot be played."""
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
    """The form prefilled from a YAML file or pasted text; launches nothing."""
    origin = launch_base(request, request.POST)
    file = request.FILES.get("file")
    text = request.POST.get("yaml", "")
    try:
        if file is not None:
            if (file.size or 0) > plain_yaml.MAX_LENGTH:
                raise ValueError(f"the file is longer than {plain_yaml.MAX_LENGTH:,} bytes")
            text = file.read().decode("utf-8", "replace")
        config = form.from_yaml(text)
    except ValueError as error:
        found = [f"{where}: {what}" if where else what for where, what in form.problems_of(error)]
        problems = found[:MAX_PROBLEMS]
        if len(found) > MAX_PROBLEMS:
            problems.append(f"There are {len(found) - MAX_PROBLEMS:,} further problems.")
        values = origin.base.model_dump()
        response = launch_page(request, origin, values, {}, yaml_text=text, yaml_problems=problems)
        response.status_code = 422
        return response
    messages.success(request, "Settings loaded from YAML. Nothing is launched yet.")
    return launch_page(request, origin, config.model_dump(), _problems(request, config.model_dump()))


def _problems(request: HttpRequest, values: dict[str, Any]) -> dict[str, str]:
    """What the site does not allow of valid settings that were not posted: of a preset, a clone or a YAML file."""
    return allowed_inputs.problems(RunConfig.model_validate(values), readable_runs(request))


@login_required
@require_POST
@_explain_not_clonable
def launch_check(request: HttpRequest) -> HttpResponse:
    """Check the form: an error per field, a summary in the bar, estimates and differences."""
    origin = launch_base(request, request.POST)
    options = launch_options(request.POST, origin)
    checked = form.check(request.POST.dict(), readable_runs(request))
    current = capacity_now(database_now())
    shown = form_layout(checked.data, origin, checked.errors, gpus=relevance.has_gpus(current))
    facts = form_facts(request, origin, checked.config, shown.settings, checked.errors, options, current)
    return render(request, "runs/_check.html", {"swap": True} | facts)


@login_required
@require_POST
@_explain_not_clonable
def launch_exports(request: HttpRequest) -> HttpResponse:
    """The form as YAML and as an API call, for a reader who opens one of them."""
    origin = launch_base(request, request.POST)
    checked = form.check(request.POST.dict(), readable_runs(request))
    context: dict[str, Any] = {"swap": True}
    if checked.config is not None:
        context |= exports(request, origin, checked.config, launch_options(request.POST, origin))
    return render(request, "runs/_launch_exports.html", context)


@login_required
@require_GET
@_explain_not_clonable
def launch_environment(request: HttpRequest) -> HttpResponse:
    """Settings of the chosen environment, at their defaults, and its budgets in place of those before.

    With a variant of an adapter only its budgets.
    """
    origin = launch_base(request, request.GET)
    name, variant = request.GET.get(ENVIRONMENT, ""), request.GET.get(VARIANT)
    context = {
        "environment_settings": fields.environment_settings(name, {}, {}) if variant is None else [],
        "budgets": fields.budget_settings(_budgets(name, {"id": variant} if variant else {}), origin.base),
        "base_word": "was" if origin.source else "preset",
    }
    template = "runs/_environment_change.html" if variant is None else "runs/_variant_budgets.html"
    return render(request, template, context)


def _budgets(name: str, settings: dict[str, Any]) -> dict[str, int]:
    """Budgets that an environment recommends; none for an unknown one, and for settings that it refuses."""
    try:
        return recommended_budgets(name, settings) if name in envs.names() else {}
    except ValueError:  # the check of the form shows it
        return {}


@login_required
@require_GET
@cache_control(private=True, max_age=3600)
def launch_boards(request: HttpRequest) -> JsonResponse:
    """Board and text of a sample of each environment with presets; fetched by the page once it is shown."""
    names = sorted({preset.environment for preset in catalogue.presets()})
    return JsonResponse({name: launch_picture(name) for name in names})


@login_required
@require_POST
def launch_echo_trap(request: HttpRequest) -> HttpResponse:
    """Launch both arms of the Echo Trap preset once, and open the one that collapses.

    A user who has launched them before gets those runs. Members who may not launch are refused, like everywhere.
    """
    team, author = require_writable_teams(request.user)[0], signed_in(request)
    before = Run.objects.filter(author=author, launch_key__startswith=f"{ECHO_TRAP_KEY}.").exists()
    planned = experiment.plan(load_preset(ECHO_TRAP_PRESET), ECHO_TRAP_PRESET, ("starpo", "starpo_s"), seeds=1)
    try:
        collapsing, *_ = do_create_group(
            team,
            author,
            planned,
            group=free_name(team, "Echo Trap"),
            scheduling=SchedulingOptions(),
            launch_key=ECHO_TRAP_KEY,
        )
    except QuotaExceeded as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        return redirect("runs")
    if before:
        messages.info(request, "This is the Echo Trap that you launched before. Clone it to see it again.")
    else:
        messages.success(
            request,
            "Two runs launched, which start as soon as a worker is free: this one collapses within a few minutes of "
            "training; the other one differs only by StarPO-S, and learns. Compare them by their group.",
        )
    return redirect("run", collapsing.slug)
