"""Launch form with its inline checks, and clones of runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import urlencode
from django.views import View
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET, require_POST

import envs
from trainer.config.environment import recommended_budgets
from trainer.config.files import load_preset, validation_errors
from webapp.core.quotas import QuotaExceeded
from webapp.pages.runs.launch_form import FormStart, LaunchForm, NotClonable, posted, prefilled
from webapp.pages.runs.launch_page import LaunchPage
from webapp.play.launch_pictures import launch_picture
from webapp.runs.actions import RequestRefused
from webapp.runs.launch import catalogue, fields, plain_yaml
from webapp.runs.launch.creation import free_name
from webapp.runs.launch.form import Parsed, from_yaml, list_problems
from webapp.runs.launch.planning import LaunchRequest, do_launch, plan_launch
from webapp.runs.launch.texts import ENVIRONMENT, VARIANT
from webapp.runs.models import Run
from webapp.teams.access import require_writable_teams, signed_in

MAX_PROBLEMS = 20
"""Maximum number of problems of a configuration that a page lists."""
ECHO_TRAP_PRESET = "bandit-starpo-trap"
ECHO_TRAP_KEY = "echo-trap"  # launch key of every click, so that a second one opens the runs of the first


def _explain_not_clonable(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Decorate a view to show the settings that do not fit, instead of the form."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponseBase:
        try:
            return view(request)
        except NotClonable as refusal:
            problems = validation_errors(refusal.error)[:MAX_PROBLEMS] if refusal.error else []
            context = {"page": "launch", "source": refusal.source, "problems": problems}
            return render(request, "runs/not_clonable.html", context, status=409)

    return answer


@method_decorator([login_required, _explain_not_clonable], name="dispatch")
class LaunchView(View):
    """The launch form."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form; its address may prefill it."""
        return _page(request, prefilled(signed_in(request), request.GET))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Launch the runs, or show the form with its errors."""
        form = posted(signed_in(request), request.POST)
        plan = form.plan
        if plan.errors or request.POST.get("do") == "check":
            return _page(request, form, status=422 if plan.errors else 200)
        try:
            runs = do_launch(plan)
        except (QuotaExceeded, RequestRefused) as refusal:
            messages.warning(request, f"Nothing was launched. {refusal}")
            return _page(request, form, status=409)
        when = "its model is downloaded and a worker is free" if plan.needs_download else "a worker is free"
        if len(runs) > 1:
            messages.success(request, f"{len(runs)} runs launched as one group. Each starts when {when}.")
            return redirect(f"{reverse('runs')}?{urlencode({'group': runs[0].group, 'team': runs[0].team.slug})}")
        messages.success(request, f"Run launched. It starts when {when}.")
        return redirect("run", runs[0].slug)


def _page(request: HttpRequest, form: LaunchForm, *, status: int = 200, **context: Any) -> HttpResponse:
    for note in form.notes:
        messages.warning(request, note)
    page = {"page": "launch", "base_word": form.start.word}
    return render(request, "runs/launch.html", page | _contents(request, form) | context, status=status)


def _contents(request: HttpRequest, form: LaunchForm) -> dict[str, Any]:
    """Return what all parts of the page read."""
    launch = LaunchPage(form, request.build_absolute_uri("/").rstrip("/"))
    return {"form": form, "plan": form.plan, "launch": launch}


@login_required
@require_POST
@_explain_not_clonable
def launch_yaml(request: HttpRequest) -> HttpResponse:
    """Show the form prefilled from a YAML file or pasted text; nothing is launched."""
    start = FormStart.read(signed_in(request), request.POST)
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
        form = LaunchForm(start, Parsed.of(start.config))
        return _page(request, form, status=422, yaml_text=text, yaml_problems=problems)
    messages.success(request, "Settings loaded from YAML. Nothing is launched yet.")
    return _page(request, LaunchForm(start, Parsed.of(config)))


@login_required
@require_POST
@_explain_not_clonable
def launch_check(request: HttpRequest) -> HttpResponse:
    """Check the form: an error per field, a summary in the bar, estimates and differences."""
    contents = _contents(request, posted(signed_in(request), request.POST))
    return render(request, "runs/_check.html", {"swap": True} | contents)


@login_required
@require_POST
@_explain_not_clonable
def launch_exports(request: HttpRequest) -> HttpResponse:
    """Show the form as YAML and as an API call, once a user opens one of them."""
    contents = _contents(request, posted(signed_in(request), request.POST))
    return render(request, "runs/_launch_exports.html", {"swap": True} | contents)


@login_required
@require_GET
@_explain_not_clonable
def launch_environment(request: HttpRequest) -> HttpResponse:
    """Show the chosen environment's settings, at their defaults, and its budgets instead of the previous ones.

    For a variant of an adapter, only its budgets.
    """
    start = FormStart.read(signed_in(request), request.GET)
    name, variant = request.GET.get(ENVIRONMENT, ""), request.GET.get(VARIANT)
    context = {
        "environment_settings": fields.environment_settings(name, {}, {}) if variant is None else [],
        "budgets": fields.budget_settings(_budgets(name, {"id": variant} if variant else {}), start.config),
        "base_word": start.word,
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
    author = signed_in(request)
    team = require_writable_teams(author)[0]
    launched_before = Run.objects.filter(author=author, launch_key__startswith=f"{ECHO_TRAP_KEY}.").exists()
    requested = LaunchRequest(
        author,
        team,
        load_preset(ECHO_TRAP_PRESET),
        ECHO_TRAP_PRESET,
        arms=("starpo", "starpo_s"),
        group=free_name(team, "Echo Trap"),
        key=ECHO_TRAP_KEY,
    )
    try:
        collapsing, *_ = do_launch(plan_launch(requested, Run.objects.listed_for(author)))
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
