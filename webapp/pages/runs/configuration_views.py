"""Configuration tab of a run, and requests to change its settings while it trains, or to rewind it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from trainer.config.changes import CHANGEABLE
from trainer.config.files import ordered_dump
from webapp.core.output_budget import yaml_text
from webapp.pages.run_page import run_page
from webapp.runs import setting_changes
from webapp.runs.access import get_run
from webapp.runs.actions import RequestRefused
from webapp.runs.configuration import sections
from webapp.runs.launch.fields import full_labels
from webapp.runs.models import Run
from webapp.runs.setting_changes import InvalidChange
from webapp.teams.access import may_write, require_writer, signed_in
from webapp.teams.decorators import account_optional
from webapp.trajectories.exports.run_downloads import has_journal


@account_optional
@require_GET
def run_configuration(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the complete RunConfig as YAML for the command line; for another trainer's run, its recorded settings."""
    run = get_run(request.user, slug)
    if request.GET.get("download"):
        response = HttpResponse(_yaml(run), content_type="application/yaml; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{run.slug}.yaml"'
        return response
    return _page(request, run)


@login_required
@require_POST
def run_change(request: HttpRequest, slug: str) -> HttpResponse:
    """Request other values of settings while the run trains; show the form again with what is wrong."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    entered, why = _entered(request), request.POST.get("why", "")
    if not entered:
        return _page(request, run, problem="Enter a new value for at least one setting.", why=why, status=422)
    try:
        setting_changes.do_request_changes(run, signed_in(request), entered, why)
    except InvalidChange as error:
        return _page(request, run, entered=entered, problem=_problem(error), invalid=error, why=why, status=422)
    except RequestRefused as error:
        messages.warning(request, str(error))
    else:
        messages.success(request, "Requested: the new values hold from the next iteration on.")
    return redirect(f"{reverse('run-configuration', args=[slug])}#change-settings")


@login_required
@require_http_methods(["GET", "POST"])
def run_rewind(request: HttpRequest, slug: str, iteration: int) -> HttpResponse:
    """Say what going back to a kept checkpoint means, and request it once that is confirmed."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    entered, why, problem, invalid = _entered(request), request.POST.get("why", ""), "", None
    if request.method == "POST":
        try:
            setting_changes.do_request_changes(run, signed_in(request), entered, why, iteration)
        except InvalidChange as error:
            problem, invalid = _problem(error), error
        except RequestRefused as error:
            messages.warning(request, str(error))
            return redirect("run-configuration", slug)
        else:
            return redirect("run", slug)  # whose header says what was requested
    refusal = setting_changes.refusal(run, rewinds=True) or setting_changes.checkpoint_refusal(run, iteration)
    context: dict[str, Any] = {
        "checkpoint": iteration,
        "replayed": run.iteration - iteration,
        "refusal": refusal,
        "changeable": [] if refusal else setting_changes.changeable_settings(run, entered, iteration, invalid),
        "repeated": [] if refusal else setting_changes.repeated_changes(run, iteration),
        "change_problem": problem,
        "change_reason": why,
    }
    response = run_page(request, run, "run-configuration", "runs/rewind.html", **context)
    response.status_code = 422 if problem else 200
    return response


def _entered(request: HttpRequest) -> dict[str, str]:
    """Return the new values that a form contains, by setting."""
    return {name: request.POST[name] for name in CHANGEABLE if request.POST.get(name, "").strip()}


def _problem(error: InvalidChange) -> str:
    label = full_labels().get(error.setting, error.setting)
    return f"{label}: {error}" if error.setting in CHANGEABLE else str(error)


def _yaml(run: Run) -> str:
    settings = ordered_dump(run.config) if run.recorded is None else run.recorded
    return yaml_text(settings) if settings else ""


def _page(
    request: HttpRequest,
    run: Run,
    *,
    entered: dict[str, str] | None = None,
    problem: str = "",
    invalid: InvalidChange | None = None,
    why: str = "",
    status: int = 200,
) -> HttpResponse:
    shown = sections(run) if run.recorded is None else []
    writer = may_write(request.user, run.team_id)
    refusal = setting_changes.refusal(run) if writer else ""
    is_open = writer and not refusal
    changeable = setting_changes.changeable_settings(run, entered or {}, invalid=invalid) if is_open else []
    context: dict[str, Any] = {
        "text": _yaml(run),
        "has_journal": has_journal(run),
        "sections": shown,
        "changed": [setting for section in shown for setting in section.settings if setting.preset is not None],
        "setting_changes": list(run.setting_changes.all()),
        "changeable": changeable,
        "rewindable": writer and not setting_changes.refusal(run, rewinds=True),
        "change_problem": problem,
        "change_reason": why,
    }
    response = run_page(request, run, "run-configuration", "runs/configuration.html", **context)
    response.status_code = status
    return response
