"""Launch form with its inline checks, and clones of runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

import envs
from trainer.config.files import find_preset, load_preset, preset_names
from trainer.config.run import RunConfig
from webapp.core import ids
from webapp.core.database import database_now
from webapp.runs import summaries
from webapp.runs.access import get_run, require_may_prefer
from webapp.runs.actions import SchedulingOptions, do_create_run, options_for_clone
from webapp.runs.launch import estimates, form, summary
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.runs.queue.capacity import Capacity, capacity_now, expected_wait
from webapp.teams.access import READ_ONLY, role_in_team, writable_teams
from webapp.teams.models import Membership, Team

DEFAULT_PRESET = "sokoban-starpo_s-pocket"
MAX_YAML_LENGTH = 200_000
MAX_GPUS = 64
MAX_LAUNCH_KEY = 40


def _require_teams(request: HttpRequest) -> list[Team]:
    teams = writable_teams(request.user)
    if not teams:
        raise PermissionDenied(READ_ONLY)
    return teams


def _preset_name(name: str) -> str:
    return find_preset(name) or DEFAULT_PRESET


def _preset_of(environment: str) -> str:
    """A preset of the environment, preferably for any machine; the default preset if there is none."""
    matching = [name for name in preset_names() if load_preset(name).environment.name == environment]
    return min(matching, key=lambda name: ("pocket" not in name, "starpo_s" not in name), default=DEFAULT_PRESET)


def _source(request: HttpRequest, slug: str) -> Run | None:
    return get_run(request.user, slug) if slug else None


@dataclass(frozen=True)
class LaunchBase:
    """Base of the form: a preset, or the run being cloned."""

    teams: list[Team]
    source: Run | None
    chosen: str
    base: RunConfig

    def team_of(self, slug: str) -> Team:
        """The chosen team, else that of the source, else the first one."""
        requested = slug or (self.source.team.slug if self.source else "")
        return next((team for team in self.teams if team.slug == requested), self.teams[0])


def _launch_base(request: HttpRequest, query: QueryDict) -> LaunchBase:
    teams = _require_teams(request)
    source = _source(request, query.get("clone", ""))
    environment = query.get("environment", "")
    named = query.get("preset", "") or (source.preset if source else "")
    chosen = _preset_name(named) if named or not environment else _preset_of(environment)
    base = RunConfig.model_validate(source.config) if source else load_preset(chosen)
    return LaunchBase(teams, source, chosen, base)


def _scheduling(query: QueryDict, source: Run | None) -> tuple[SchedulingOptions, dict[str, str]]:
    """Scheduling options of the form and their errors; defaults are those of the source."""
    errors: dict[str, str] = {}
    before = SchedulingOptions() if source is None else options_for_clone(source)
    queue = query.get("queue", before.queue).strip()
    if queue and (not re.match(device_classes.NAME, queue) or len(queue) > 100):
        errors["queue"] = "must be a name of letters, digits, dot, dash and underscore"
    text = query.get("gpus", "" if before.gpus is None else str(before.gpus)).strip()
    gpus = int(text) if text.isdecimal() and int(text) <= MAX_GPUS else None
    if text and gpus is None:
        errors["gpus"] = f"must be a whole number from 0 to {MAX_GPUS}, or empty"
    named = {choice.name.lower(): choice for choice in Run.Priority}
    priority = named.get(query.get("priority", ""), Run.Priority.NORMAL)
    return SchedulingOptions("" if "queue" in errors else queue, gpus, priority), errors


def _visibility(query: QueryDict, source: Run | None) -> Run.Visibility:
    visibility = query.get("visibility", "") or (source.visibility if source else "")
    return Run.Visibility(visibility) if visibility in Run.Visibility.values else Run.Visibility.TEAM


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def launch(request: HttpRequest) -> HttpResponse:
    """Launch form and its submission. `?preset=`, `?environment=` and `?clone=` prefill it."""
    query = request.POST if request.method == "POST" else request.GET
    origin = _launch_base(request, query)
    if request.method != "POST":
        environment = query.get("environment", "")
        values = origin.base.model_dump()
        if environment in envs.names() and values["environment"]["name"] != environment:
            values["environment"] |= {"name": environment, "settings": {}}
        return _form(request, origin, values, {})
    checked = form.check(request.POST.dict())
    scheduling, scheduling_errors = _scheduling(request.POST, origin.source)
    if checked.config is None or scheduling_errors or request.POST.get("do") == "check":
        response = _form(request, origin, checked.data, checked.errors)
        response.status_code = 422 if checked.errors or scheduling_errors else 200
        return response
    team = origin.team_of(request.POST.get("team", ""))
    require_may_prefer(request.user, team.pk, scheduling.priority)
    run = do_create_run(
        team,
        request.user,  # type: ignore[arg-type]
        checked.config,
        preset=origin.chosen,
        scheduling=scheduling,
        visibility=_visibility(request.POST, origin.source),
        launch_key=request.POST.get("launch_key", "")[:MAX_LAUNCH_KEY],
    )
    messages.success(request, "Run launched. It starts when a worker is free.")
    return redirect("run", run.slug)


@login_required
@require_POST
def launch_yaml(request: HttpRequest) -> HttpResponse:
    """The form prefilled from a YAML file or pasted text; launches nothing."""
    origin = _launch_base(request, request.POST)
    file = request.FILES.get("file")
    text = request.POST.get("yaml", "")
    try:
        if file is not None:
            if (file.size or 0) > MAX_YAML_LENGTH:
                raise ValueError(f"the file is longer than {MAX_YAML_LENGTH:,} bytes")
            text = file.read().decode("utf-8", "replace")
        config = form.from_yaml(text)
    except ValueError as error:
        problems = [f"{where}: {what}" if where else what for where, what in form.problems_of(error)]
        response = _form(request, origin, origin.base.model_dump(), {}, yaml_text=text, yaml_problems=problems)
        response.status_code = 422
        return response
    messages.success(request, "Settings loaded from YAML. Nothing is launched yet.")
    return _form(request, origin, config.model_dump(), {})


def _settings(
    data: dict[str, Any], base: RunConfig, errors: dict[str, str]
) -> tuple[list[form.SettingGroup], list[form.Setting]]:
    """All fields of the form: setting groups, and settings of the environment."""
    environment = data["environment"]
    name, before = environment["name"], base.environment
    settings = before.settings if before.name == name else {}
    return form.groups(data, base, errors), form.environment_settings(name, environment["settings"], settings, errors)


def _form(
    request: HttpRequest, origin: LaunchBase, values: dict[str, Any], errors: dict[str, str], **context: Any
) -> HttpResponse:
    groups, settings = _settings(values, origin.base, errors)
    config = None if errors else RunConfig.model_validate(values)
    query = request.POST if request.method == "POST" else request.GET
    before = SchedulingOptions() if origin.source is None else options_for_clone(origin.source)
    scheduling, _ = _scheduling(query, origin.source)
    current = capacity_now(database_now())
    context |= {
        "page": "launch",
        "launch_key": query.get("launch_key", "")[:MAX_LAUNCH_KEY] or ids.token(),
        "teams": origin.teams,
        "team_slug": origin.team_of(query.get("team", "")).slug,
        "source": origin.source,
        "chosen": origin.chosen,
        "presets": summaries.presets(),
        "groups": groups,
        "environment_settings": settings,
        "visibilities": Run.Visibility.choices,
        "priorities": [(choice.name.lower(), choice.label) for choice in Run.Priority],
        "priority": scheduling.priority.name.lower(),
        "may_prefer": any(role_in_team(request.user, team.pk) == Membership.Role.ADMIN for team in origin.teams),
        "queue": query.get("queue", before.queue),
        "classes": device_classes.class_choices(
            current.workers.keys() | ({scheduling.queue} - {""})
        ),  # perhaps without a worker
        "gpus": query.get("gpus", "" if before.gpus is None else str(before.gpus)),
    }
    facts = _facts(request, origin, config, _all(groups, settings), errors, current)
    return render(request, "runs/launch.html", context | facts)


def _facts(
    request: HttpRequest,
    origin: LaunchBase,
    config: RunConfig | None,
    settings: list[form.Setting],
    errors: dict[str, str],
    current: Capacity,
) -> dict[str, Any]:
    """Context about the current form: problems, differences, estimates, warnings, YAML and curl."""
    query = request.POST if request.method == "POST" else request.GET
    visibility = _visibility(query, origin.source)
    now = timezone.now()
    scheduling, scheduling_errors = _scheduling(query, origin.source)
    queue, capacity = device_classes.ANY, current.sentence(device_classes.ANY, 0)
    if config is not None:
        queue, gpus = scheduling.resolved(config, current.workers.keys())
        newcomer = Run(
            team_id=origin.team_of(query.get("team", "")).pk,
            queue=queue,
            gpus=gpus,
            queued_at=now,
            priority=scheduling.priority,
            memory=estimates.needed_memory(config, gpus),
            config=config.model_dump(mode="json"),
        )
        capacity = expected_wait(newcomer, current, now)
    facts: dict[str, Any] = {
        "base_word": "was" if origin.source else "preset",
        "base_title": origin.source.title if origin.source else origin.chosen,
        "differences": summary.differences(settings),
        "wrong": [setting for setting in settings if setting.error],
        "errors": errors,
        "unplaced": _unplaced(errors, [setting.name for setting in settings]),
        "capacity": capacity,
        "scheduling_errors": scheduling_errors,
        "devices": current.devices,
        "visibility": visibility,
        "title": "",
        "estimate": "",
    }
    if config is not None:
        team = origin.team_of(query.get("team", "")).slug if len(origin.teams) > 1 else ""
        address = request.build_absolute_uri("/api/runs")
        preset = load_preset(origin.chosen)
        facts |= {
            "title": config.title(),
            "estimate": summaries.estimate_words(config),
            "figures": estimates.figures(request.user, config),
            "warnings": summary.warnings(config, current, queue),
            "as_yaml": summary.as_yaml(config),
            "as_curl": summary.as_curl(
                address, config, origin.chosen, preset, visibility=visibility, team=team, scheduling=scheduling
            ),
        }
    return facts


@login_required
@require_POST
def launch_check(request: HttpRequest) -> HttpResponse:
    """Check the form: an error per field, a summary in the bar, estimates and differences."""
    origin = _launch_base(request, request.POST)
    checked = form.check(request.POST.dict())
    slots = _all(*_settings(checked.data, origin.base, checked.errors))
    current = capacity_now(database_now())
    context = {"swap": True, "slots": slots} | _facts(request, origin, checked.config, slots, checked.errors, current)
    return render(request, "runs/_check.html", context)


@login_required
@require_GET
def launch_environment(request: HttpRequest) -> HttpResponse:
    """Settings of the chosen environment, at their defaults."""
    _require_teams(request)
    settings = form.environment_settings(request.GET.get(form.ENVIRONMENT, ""), {}, {})
    return render(request, "runs/_environment.html", {"environment_settings": settings})


def _all(groups: list[form.SettingGroup], environment: list[form.Setting]) -> list[form.Setting]:
    return [*(setting for group in groups for setting in group.settings), *environment]


def _unplaced(errors: dict[str, str], settings: list[str]) -> list[str]:
    """Errors of settings that the form does not show."""
    visible = {*form.names(), *settings}
    return [f"{name}: {text}" if name else text for name, text in errors.items() if name not in visible]
