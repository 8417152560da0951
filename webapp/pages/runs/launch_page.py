"""Contents of the launch page: what the form starts from, its options besides the configuration, and its context."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode
from pydantic import ValidationError

import envs
from trainer.config.files import find_preset, load_preset, preset_names
from trainer.config.run import POCKET, RunConfig
from webapp.core import formatting, ids
from webapp.core.database import database_now
from webapp.runs.access import get_run
from webapp.runs.launch import catalogue, estimates, experiment, fields, form, relevance, summary
from webapp.runs.launch.creation import SchedulingOptions, options_for_clone
from webapp.runs.launch.layout import FormLayout, layout
from webapp.runs.model_cards import cards
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.runs.queue.capacity import Capacity, capacity_now, expected_wait, present_wait
from webapp.runs.stored_models import model_requests
from webapp.teams.access import require_writable_teams, role_in_team, signed_in
from webapp.teams.models import Membership, Team

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
    """The configuration of the run does not fit this version, or is another trainer's, where there is no error."""

    def __init__(self, source: Run, error: ValidationError | None = None) -> None:
        super().__init__(source.slug)
        self.source, self.error = source, error


@dataclass(frozen=True)
class LaunchBase:
    """Base of the form: a preset, or the run being cloned."""

    teams: list[Team]
    source: Run | None
    chosen: str
    base: RunConfig

    def team_of(self, slug: str) -> Team:
        """The chosen team, else that of the source, else the first one. For launching, see `unknown_team` as well."""
        requested = slug or (self.source.team.slug if self.source else "")
        return next((team for team in self.teams if team.slug == requested), self.teams[0])

    def unknown_team(self, slug: str) -> dict[str, str]:
        """The error of a form that names a team in which the user may not launch runs; none without a name."""
        if not slug or any(team.slug == slug for team in self.teams):
            return {}
        return {"team": "you may not launch runs in this team (any more): choose another one"}


def launch_base(request: HttpRequest, query: QueryDict) -> LaunchBase:
    """What the form starts from, by its query. Raises NotClonable."""
    teams = require_writable_teams(request.user)
    clone = query.get("clone", "")
    source = get_run(request.user, clone) if clone else None
    if source is not None and source.recorded is not None:
        raise NotClonable(source)
    environment = query.get("environment", "")
    named = query.get("preset", "") or (source.preset if source else "")
    chosen = (find_preset(named) or DEFAULT_PRESET) if named or not environment else _preset_of(environment)
    try:
        base = RunConfig.model_validate(source.config) if source else load_preset(chosen)
    except ValidationError as error:
        assert source is not None
        raise NotClonable(source, error) from None
    return LaunchBase(teams, source, chosen, base)


def _preset_of(environment: str) -> str:
    """A preset of the environment, preferably for any machine; the default preset if there is none."""
    matching = [name for name in preset_names() if load_preset(name).environment.name == environment]
    return min(matching, key=lambda name: ("pocket" not in name, "starpo_s" not in name), default=DEFAULT_PRESET)


@dataclass(frozen=True)
class LaunchOptions:
    """Options of the form besides the configuration, and the errors of these fields."""

    scheduling: SchedulingOptions
    visibility: Run.Visibility
    arms: list[str]
    seeds: int
    group: str
    errors: dict[str, str] = field(default_factory=dict)


def launch_options(query: QueryDict, origin: LaunchBase) -> LaunchOptions:
    """The options of a posted form, or those at its start: of the source, else the usual ones."""
    source, errors = origin.source, origin.unknown_team(query.get("team", ""))
    before = SchedulingOptions() if source is None else options_for_clone(source)
    queue = query.get("queue", before.queue).strip()
    if queue and (not re.match(device_classes.NAME, queue) or len(queue) > 100):
        errors["queue"] = "must be a name of letters, digits, dot, dash and underscore"
    text = query.get("gpus", "" if before.gpus is None else str(before.gpus)).strip()
    gpus = int(text) if text.isdecimal() and int(text) <= MAX_GPUS else None
    if text and gpus is None:
        errors["gpus"] = f"must be a whole number from 0 to {MAX_GPUS}, or empty"
    priority = Run.Priority.named(query.get("priority", "")) or Run.Priority.NORMAL
    seeds = query.get("seeds", "1").strip() or "1"
    if not re.fullmatch(rf"[1-{experiment.MAX_SEEDS}]", seeds):
        errors["seeds"] = f"must be a whole number from 1 to {experiment.MAX_SEEDS}"
    group = query.get("group", "").strip()
    if len(group) > experiment.MAX_GROUP_NAME or "\0" in group:
        errors["group"] = f"must have at most {experiment.MAX_GROUP_NAME} characters"
    visibility = query.get("visibility", "") or (source.visibility if source else "")
    return LaunchOptions(
        SchedulingOptions("" if "queue" in errors else queue, gpus, priority),
        Run.Visibility(visibility) if visibility in Run.Visibility.values else Run.Visibility.TEAM,
        [arm[:40] for arm in query.getlist("arms")[:10]],
        1 if "seeds" in errors else int(seeds),
        "" if "group" in errors else group,
        errors,
    )


def planned_runs(config: RunConfig, origin: LaunchBase, options: LaunchOptions) -> list[experiment.PlannedRun]:
    """The runs that the form launches: one, or those of an experiment. Raises ExperimentRefused."""
    return experiment.plan(config, origin.chosen, options.arms, options.seeds)


def readable_runs(request: HttpRequest) -> QuerySet[Run]:
    """Runs whose checkpoints the user may train on."""
    return Run.objects.of_teams_of(request.user)


def query_of(request: HttpRequest) -> QueryDict:
    """The fields of the form: posted, or in the address."""
    return request.POST if request.method == "POST" else request.GET


def form_layout(data: dict[str, Any], origin: LaunchBase, errors: dict[str, str], *, gpus: bool) -> FormLayout:
    """All fields of the form, by step."""
    environment, before = data["environment"], origin.base.environment
    settings = before.settings if before.name == environment["name"] else {}
    return layout(
        fields.groups(data, origin.base, errors),
        fields.environment_settings(environment["name"], environment["settings"], settings, errors),
        relevance.reasons(data, gpus=gpus),
        changed_first=origin.source is not None,
    )


def launch_page(
    request: HttpRequest, origin: LaunchBase, values: dict[str, Any], errors: dict[str, str], **context: Any
) -> HttpResponse:
    """The form with these values, its estimates and its exports."""
    query, options = query_of(request), launch_options(query_of(request), origin)
    current = capacity_now(database_now())
    gpus = relevance.has_gpus(current)
    shown = form_layout(values, origin, errors, gpus=gpus)
    config = None if errors else RunConfig.model_validate(values)
    before = SchedulingOptions() if origin.source is None else options_for_clone(origin.source)
    facts = form_facts(request, origin, config, shown.settings, errors, options, current)
    context |= {
        "page": "launch",
        "launch_key": query.get("launch_key", "")[:MAX_LAUNCH_KEY] or ids.token(),
        "teams": origin.teams,
        "team_slug": origin.team_of(query.get("team", "")).slug,
        "source": origin.source,
        "chosen": origin.chosen,
        "environment": values["environment"]["name"],
        "layout": shown,
        "environment_settings": next(each.environment for each in shown.sections if each.key == "environment"),
        "has_gpus": gpus,
        "visibility": options.visibility,
        "visibilities": Run.Visibility.choices,
        "priorities": Run.Priority.options(),
        "priority": options.scheduling.priority.name.lower(),
        "may_prefer": any(role_in_team(request.user, team.pk) == Membership.Role.ADMIN for team in origin.teams),
        "queue": query.get("queue", before.queue),
        "classes": device_classes.class_choices(
            current.workers.keys() | ({options.scheduling.queue} - {""})
        ),  # perhaps without a worker
        "gpus": query.get("gpus", "" if before.gpus is None else str(before.gpus)),
        "arms": _arm_choices(origin, options),
        "seeds": query.get("seeds", "1"),
        "seed_choices": range(1, experiment.MAX_SEEDS + 1),
        "group_name": query.get("group", ""),
    }
    context |= model_choice(request, values, origin)
    if config is not None:
        context |= exports(request, origin, config, options)
    if origin.source is None:
        preset = catalogue.preset_of(origin.chosen)
        name = values["environment"]["name"]
        variant = str(values["environment"]["settings"].get("id") or "")
        kept = {"environment": name} | ({"id": variant} if variant else {})
        context |= {
            "environment_query": "" if name == preset.environment else f"&{urlencode(kept)}",
            "variants": envs.variants(name),
            "variant": variant or _default_variant(name),
            "preset": preset,
            "cards": catalogue.environment_cards(preset),
            "other_environments": catalogue.other_environments(),
            "algorithms": catalogue.arms(preset),
            "policies": catalogue.policies(preset),
        }
    return render(request, "runs/launch.html", context | facts)


def model_choice(request: HttpRequest, values: dict[str, Any], origin: LaunchBase) -> dict[str, Any]:
    """Context of the cards of models, with estimates for the run that the form starts from."""
    model = str(values["policy"].get("model") or "")
    base = origin.base
    if not base.hosted.url:
        base = base.model_copy(update={"policy": base.policy.model_copy(update={"model": model or POCKET})})
    found = cards.cards(signed_in(request), base, origin.chosen)
    return {
        "model_cards": found,
        "model": model if any(card.value == model for card in found) else "",
        "far_models": [card for card in found if card.out_of_reach and card.value != model],
        "other_model": model,
        "problems": {},
    } | cards.polling(found)


def _default_variant(name: str) -> str:
    """The variant that an adapter plays unless its settings say otherwise; empty for other environments."""
    field = envs.settings_model(name).model_fields.get("id") if envs.variants(name) else None
    return str(field.default) if field else ""


def _arm_choices(origin: LaunchBase, options: LaunchOptions) -> list[tuple[experiment.Arm, bool]]:
    """(arm, whether it is checked); none where the form starts from a run that is not of its preset's kind."""
    own = experiment.own_arm(origin.base, origin.chosen)
    if own is None:
        return []
    checked = options.arms or [own.key]
    return [(arm, arm.key in checked) for arm in experiment.arms_of(origin.chosen)]


def form_facts(
    request: HttpRequest,
    origin: LaunchBase,
    config: RunConfig | None,
    settings: Sequence[fields.Setting],
    errors: dict[str, str],
    options: LaunchOptions,
    current: Capacity,
) -> dict[str, Any]:
    """Context about the current form: problems, differences, estimates, warnings, the runs to launch."""
    planned: list[experiment.PlannedRun] = []
    option_errors = dict(options.errors)
    if config is not None:
        try:
            planned = planned_runs(config, origin, options)
        except experiment.ExperimentRefused as refusal:
            option_errors[refusal.field] = str(refusal)
    now = timezone.now()
    queue, gpus = device_classes.ANY, 0
    if config is None:
        capacity = present_wait(current)
    else:
        queue, gpus = options.scheduling.resolved(config, current.workers.keys())
        newcomer = Run(
            team_id=origin.team_of(query_of(request).get("team", "")).pk,
            queue=queue,
            gpus=gpus,
            queued_at=now,
            priority=options.scheduling.priority,
            memory=estimates.needed_memory(config, gpus),
            memory_without_gpu=estimates.memory_without_gpu(config, gpus),
            config=config.model_dump(mode="json"),
        )
        capacity = expected_wait(newcomer, current, now)
    facts: dict[str, Any] = {
        "base_word": "was" if origin.source else "preset",
        "base_title": origin.source.title if origin.source else origin.chosen,
        "differences": summary.differences(settings),
        "problems": _problems_in_words(errors | option_errors, settings),
        "option_errors": option_errors,
        "capacity": capacity,
        "devices": current.devices,
        "planned": planned,
        "launch_word": _launch_word(config, len(planned)),
        "state": {
            "errors": {_slot(name, settings): text for name, text in (errors | option_errors).items()},
            "reasons": {setting.name: setting.reason for setting in settings if setting.reason},
        },
        "title": "",
        "estimate": "",
    }
    if config is not None:
        facts |= {
            "title": config.title() if len(planned) < 2 else _group_words(config, options, planned),
            "estimate": estimates.size_sentence(config) + (", each" if len(planned) > 1 else ""),
            "figures": estimates.figures(
                request.user, config, gpu=config.policy.device == "cuda" or (gpus > 0 and queue in current.with_gpus)
            ),
            "warnings": summary.warnings(config, current, queue),
        }
    return facts


def _launch_word(config: RunConfig | None, runs: int) -> str:
    """Text of the button."""
    download = config is not None and model_requests.needs_download(config.policy.model)
    action = "Download and launch" if download else "Launch"
    return action if runs < 2 else f"{action} {runs} runs"


def exports(request: HttpRequest, origin: LaunchBase, config: RunConfig, options: LaunchOptions) -> dict[str, str]:
    """The configuration as YAML and as an API call."""
    team = origin.team_of(query_of(request).get("team", "")).slug if len(origin.teams) > 1 else ""
    own = experiment.own_arm(config, origin.chosen)
    several = options.seeds > 1 or bool(own and set(options.arms) - {own.key})
    address = request.build_absolute_uri("/api/groups" if several else "/api/runs")
    group: dict[str, Any] = {"arms": options.arms, "seeds": options.seeds} if several else {}
    if options.group:
        group["group"] = options.group
    preset = load_preset(origin.chosen)
    return {
        "as_yaml": summary.as_yaml(config),
        "as_curl": summary.as_curl(
            address,
            config,
            origin.chosen,
            preset,
            visibility=options.visibility,
            team=team,
            scheduling=options.scheduling,
            group=group,
        ),
    }


def group_name(options: LaunchOptions, config: RunConfig) -> str:
    """The name of the group as the user gave it, else one made from the experiment."""
    return options.group or experiment.default_name(config, options.arms, options.seeds)


def _group_words(config: RunConfig, options: LaunchOptions, planned: Sequence[experiment.PlannedRun]) -> str:
    return f"{group_name(options, config)}: {formatting.plural(len(planned), 'run')}"


def _slot(name: str, settings: Sequence[fields.Setting]) -> str:
    """Element id of the field."""
    return next((setting.id for setting in settings if setting.name == name), f"f-{name}")


def _problems_in_words(errors: dict[str, str], settings: Sequence[fields.Setting]) -> list[tuple[str, str]]:
    """(element id or "", sentence) of each error; those of fields that the form does not show have no id."""
    shown = {setting.name: setting for setting in settings}
    found = []
    for name, text in errors.items():
        setting = shown.get(name)
        label = setting.label if setting else OPTION_LABELS.get(name, name)
        target = setting.id if setting else f"f-{name}" if name in OPTION_LABELS else ""
        found.append((target, form.sentence(name, label, text) if label else text))
    return found
