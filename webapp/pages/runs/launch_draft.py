"""The launch form at present: its source, its values, and the resulting request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, QueryDict
from pydantic import ValidationError

from trainer.config.files import find_preset, load_preset, preset_names
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from webapp.runs.access import get_run
from webapp.runs.launch import experiment, form
from webapp.runs.launch.creation import SchedulingOptions, options_for_clone
from webapp.runs.launch.planning import LaunchPlan, LaunchRequest, plan_launch
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.teams.access import require_writable_teams
from webapp.teams.models import Team

DEFAULT_PRESET = "sokoban-starpo_s-pocket"
MAX_GPUS = 64
MAX_LAUNCH_KEY = 40
OPTION_LABELS = {
    "team": "Team",
    "queue": "Device",
    "gpus": "GPUs",
    "arms": "The algorithms",
    "seeds": "Seeds",
    "group": "Group name",
}
"""Fields of the form that are not settings of the run."""


class NotClonable(Exception):
    """The configuration does not fit this version, or is another trainer's if there is no error."""

    def __init__(self, source: Run, error: ValidationError | None = None) -> None:
        super().__init__(source.slug)
        self.source, self.error = source, error


@dataclass(frozen=True)
class FormStart:
    """Source of the form's values: a preset, or the run that is cloned."""

    teams: list[Team]
    source: Run | None
    preset: str
    config: RunConfig

    @property
    def scheduling(self) -> SchedulingOptions:
        """Scheduling options of the cloned run, or the defaults."""
        return SchedulingOptions() if self.source is None else options_for_clone(self.source)


@dataclass(frozen=True)
class Draft:
    """The form: its fields, posted or from the address, its settings as nested data, and its request."""

    start: FormStart
    fields: QueryDict
    values: dict[str, Any]
    request: LaunchRequest

    def text(self, name: str, default: object = "") -> str:
        """Return an option as it was typed."""
        return self.fields.get(name, "" if default is None else str(default))

    def planned(self, request: HttpRequest) -> LaunchPlan:
        """Return the plan, checked with the rights of the user who sent the form."""
        return plan_launch(self.request, Run.objects.listed_for(request.user))


def form_start(request: HttpRequest, fields: QueryDict) -> FormStart:
    """Return the source of the form's values. Raises NotClonable, and 404 or PermissionDenied."""
    teams = require_writable_teams(request.user)
    clone = fields.get("clone", "")
    source = get_run(request.user, clone) if clone else None
    if source is not None and source.recorded is not None:
        raise NotClonable(source)
    environment = fields.get("environment", "")
    named = fields.get("preset", "") or (source.preset if source else "")
    preset = (find_preset(named) or DEFAULT_PRESET) if named or not environment else _choose_preset(environment)
    try:
        config = stored_config(source.config) if source else load_preset(preset)
    except ValidationError as error:
        assert source is not None
        raise NotClonable(source, error) from None
    return FormStart(teams, source, preset, config)


def _choose_preset(environment: str) -> str:
    """Return a preset of the environment, preferably for any machine; the default preset if there is none."""
    matching = [name for name in preset_names() if load_preset(name).environment.name == environment]
    return min(matching, key=lambda name: ("pocket" not in name, "starpo_s" not in name), default=DEFAULT_PRESET)


def posted(request: HttpRequest) -> Draft:
    """Return the form as it was posted. Raises NotClonable."""
    return draft(form_start(request, request.POST), request.POST, form.parse(request.POST.dict()))


def draft(start: FormStart, fields: QueryDict, parsed: form.Parsed) -> Draft:
    """Return the form with these settings, and the options in its fields."""
    errors = dict(parsed.errors)
    source, defaults = start.source, start.scheduling
    named = fields.get("team", "") or (source.team.slug if source else "")
    team = next((team for team in start.teams if team.slug == named), None)
    if fields.get("team") and team is None:
        errors["team"] = "you may not launch runs in this team (any more): choose another one"
    queue = fields.get("queue", defaults.queue).strip()
    if queue and (not re.match(device_classes.NAME, queue) or len(queue) > 100):
        queue, errors["queue"] = "", "must be a name of letters, digits, dot, dash and underscore"
    text = fields.get("gpus", "" if defaults.gpus is None else str(defaults.gpus)).strip()
    gpus = int(text) if text.isdecimal() and int(text) <= MAX_GPUS else None
    if text and gpus is None:
        errors["gpus"] = f"must be a whole number from 0 to {MAX_GPUS}, or empty"
    seeds = fields.get("seeds", "1").strip() or "1"
    if not re.fullmatch(rf"[1-{experiment.MAX_SEEDS}]", seeds):
        seeds, errors["seeds"] = "1", f"must be a whole number from 1 to {experiment.MAX_SEEDS}"
    group = fields.get("group", "").strip()
    if len(group) > experiment.MAX_GROUP_NAME or "\0" in group:
        group, errors["group"] = "", f"must have at most {experiment.MAX_GROUP_NAME} characters"
    visibility = fields.get("visibility", "") or (source.visibility if source else "")
    request = LaunchRequest(
        team=team or start.teams[0],
        config=parsed.config,
        preset=start.preset,
        arms=[arm[:40] for arm in fields.getlist("arms")[:10]],
        seeds=int(seeds),
        group=group,
        scheduling=SchedulingOptions(queue, gpus, Run.Priority.named_or_normal(fields.get("priority", ""))),
        visibility=Run.Visibility(visibility) if visibility in Run.Visibility.values else Run.Visibility.TEAM,
        key=fields.get("launch_key", "")[:MAX_LAUNCH_KEY],
        errors=errors,
    )
    return Draft(start, fields, parsed.data, request)
