"""The launch form of a user: what it starts from, its settings, and the plan that follows from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import QueryDict
from pydantic import ValidationError

import envs
from trainer.config.environment import recommended_budgets
from trainer.config.files import drop_unsuited, load_preset, validation_errors
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from webapp.runs.access import get_run
from webapp.runs.launch.catalogue import choose_preset
from webapp.runs.launch.creation import SchedulingOptions, options_for_clone
from webapp.runs.launch.experiment import MAX_GROUP_NAME, MAX_SEEDS
from webapp.runs.launch.form import Parsed, overlaid, parse
from webapp.runs.launch.layout import FormLayout, layout
from webapp.runs.launch.planning import LaunchPlan, LaunchRequest, plan_launch
from webapp.runs.launch.recovery import RECOVER, find_variation
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.teams.access import require_writable_teams
from webapp.teams.models import Team, User

MAX_GPUS = 64
MAX_LAUNCH_KEY = 40


class NotClonable(Exception):
    """The configuration does not fit this version, or is another trainer's if there is no error."""

    def __init__(self, source: Run, error: ValidationError | None = None) -> None:
        super().__init__(source.slug)
        self.source, self.error = source, error


@dataclass(frozen=True)
class FormStart:
    """What a user's form starts from: a preset or the run to clone, as the fields of it or of its address say."""

    user: User
    fields: QueryDict
    teams: list[Team]
    source: Run | None
    preset: str
    config: RunConfig

    @classmethod
    def read(cls, user: User, fields: QueryDict) -> FormStart:
        """Read what the fields name. Raises NotClonable, and 404 or PermissionDenied."""
        teams = require_writable_teams(user)
        clone = fields.get("clone", "")
        source = get_run(user, clone) if clone else None
        if source is not None and source.recorded is not None:
            raise NotClonable(source)
        named = fields.get("preset", "") or (source.preset if source else "")
        preset = choose_preset(named, fields.get("environment", ""))
        try:
            config = stored_config(source.config) if source else load_preset(preset)
        except ValidationError as error:
            assert source is not None
            raise NotClonable(source, error) from None
        return cls(user, fields, teams, source, preset, config)

    @property
    def word(self) -> str:
        """Word in front of the initial value of a changed setting."""
        return "was" if self.source else "preset"

    @property
    def title(self) -> str:
        """Name of the cloned run or of the preset."""
        return self.source.title if self.source else self.preset

    @property
    def scheduling(self) -> SchedulingOptions:
        """Scheduling options of the cloned run, or the defaults."""
        return SchedulingOptions() if self.source is None else options_for_clone(self.source)

    def text(self, name: str, default: object = "") -> str:
        """Return an option as it was typed."""
        return self.fields.get(name, "" if default is None else str(default))


@dataclass(frozen=True)
class LaunchForm:
    """The form with its settings.

    Attributes:
        question: question that a clone's variation answers; empty without one.
        notes: sentences about parts of the address that the form leaves out.
    """

    start: FormStart
    settings: Parsed
    question: str = ""
    notes: Sequence[str] = ()

    @cached_property
    def plan(self) -> LaunchPlan:
        """Plan of the runs, checked with the rights of the user."""
        return plan_launch(_request(self.start, self.settings), Run.objects.listed_for(self.start.user))

    @cached_property
    def layout(self) -> FormLayout:
        """Fields of all settings by step, with the errors of the plan."""
        start = self.start
        return layout(self.settings.data, start.config, self.plan.errors, changed_first=start.source is not None)


def posted(user: User, fields: QueryDict) -> LaunchForm:
    """Return the form as it was posted. Raises NotClonable, and 404 or PermissionDenied."""
    return LaunchForm(FormStart.read(user, fields), parse(fields))


def prefilled(user: User, query: QueryDict) -> LaunchForm:
    """Return the form before it is posted, as its address describes it. Raises as `posted`.

    `?preset=`, `?environment=` (with `?id=`) and `?clone=` (with `?vary=`) choose what it starts from.
    """
    start = FormStart.read(user, query)
    values, question, key = start.config.model_dump(), "", query.get("vary", "")
    notes = _choose_environment(values, query.get("environment", ""), query.get("id", ""))
    if start.source is not None:
        if varied := find_variation(start.source, key):
            values, question = varied.config.model_dump(), varied.label
        elif key == RECOVER:
            notes.append("No checkpoint from before the collapse is stored. This clone starts anew.")
    return LaunchForm(start, overlaid(values, query), question, notes)


def _choose_environment(values: dict[str, Any], name: str, variant: str) -> list[str]:
    """Put the environment with its budgets into the values, if it is another one; return why a part is left out."""
    if not name:
        return []
    if name not in envs.names():
        return [envs.missing_adapters().get(name) or f"There is no environment “{name[:100]}”: choose one below."]
    problem = _variant_problem(name, variant) if variant else ""
    settings = {"id": variant} if variant and not problem else {}
    environment, rollout = values["environment"], values["rollout"]
    if environment["name"] != name or (settings and variant != environment["settings"].get("id")):
        environment |= {"name": name, "settings": settings}
        rollout |= recommended_budgets(name, settings)
        drop_unsuited(environment, rollout)
    return [problem] if problem else []


def _variant_problem(name: str, variant: str) -> str:
    """Return the reason why an environment has no such variant; empty if it has."""
    if "id" not in envs.settings_model(name).model_fields:
        return f"{name} has no variants: the id “{variant[:100]}” is left out."
    try:
        envs.spec(name, {"id": variant})
    except ValidationError as error:
        return "; ".join(text for _, text in validation_errors(error))
    return ""


def _request(start: FormStart, settings: Parsed) -> LaunchRequest:
    """Return the request of a form with these settings, and the options in its fields."""
    errors, source, defaults, fields = dict(settings.errors), start.source, start.scheduling, start.fields
    named = fields.get("team", "") or (source.team.slug if source else "")
    team = next((team for team in start.teams if team.slug == named), None)
    if fields.get("team") and team is None:
        errors["team"] = "you may not launch runs in this team (any more): choose another one"
    queue = start.text("queue", defaults.queue).strip()
    if queue and (not re.match(device_classes.NAME, queue) or len(queue) > 100):
        queue, errors["queue"] = "", "must be a name of letters, digits, dot, dash and underscore"
    text = start.text("gpus", defaults.gpus).strip()
    gpus = int(text) if text.isdecimal() and int(text) <= MAX_GPUS else None
    if text and gpus is None:
        errors["gpus"] = f"must be a whole number from 0 to {MAX_GPUS}, or empty"
    seeds = fields.get("seeds", "1").strip() or "1"
    if not re.fullmatch(rf"[1-{MAX_SEEDS}]", seeds):
        seeds, errors["seeds"] = "1", f"must be a whole number from 1 to {MAX_SEEDS}"
    group = fields.get("group", "").strip()
    if len(group) > MAX_GROUP_NAME or "\0" in group:
        group, errors["group"] = "", f"must have at most {MAX_GROUP_NAME} characters"
    visibility = fields.get("visibility", "") or (source.visibility if source else "")
    return LaunchRequest(
        author=start.user,
        team=team or start.teams[0],
        config=settings.config,
        preset=start.preset,
        arms=[arm[:40] for arm in fields.getlist("arms")[:10]],
        seeds=int(seeds),
        group=group,
        scheduling=SchedulingOptions(queue, gpus, Run.Priority.named_or_normal(fields.get("priority", ""))),
        visibility=Run.Visibility(visibility) if visibility in Run.Visibility.values else Run.Visibility.TEAM,
        key=fields.get("launch_key", "")[:MAX_LAUNCH_KEY],
        errors=errors,
    )
