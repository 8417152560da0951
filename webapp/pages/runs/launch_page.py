"""Contents of the launch page: the form, the effects of its settings, and its exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode

import envs
from trainer.config.run import POCKET, RunConfig
from webapp.core import ids
from webapp.pages.runs.launch_draft import MAX_LAUNCH_KEY, OPTION_LABELS, Draft
from webapp.runs.launch import catalogue, estimates, experiment, fields, form, launch_exports, summary
from webapp.runs.launch.layout import FormLayout, layout
from webapp.runs.launch.planning import LaunchPlan
from webapp.runs.model_cards import cards
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.teams.access import role_in_team, signed_in
from webapp.teams.models import Membership


def launch_page(
    request: HttpRequest, draft: Draft, plan: LaunchPlan, *, status: int = 200, **context: Any
) -> HttpResponse:
    """Show the form with its values, estimates and exports."""
    start, shown = draft.start, form_layout(draft, plan)
    context |= {
        "page": "launch",
        "launch_key": draft.text("launch_key")[:MAX_LAUNCH_KEY] or ids.token(),
        "teams": start.teams,
        "team_slug": plan.request.team.slug,
        "source": start.source,
        "chosen": start.preset,
        "environment": draft.values["environment"]["name"],
        "layout": shown,
        "environment_settings": next(section.environment for section in shown.sections if section.key == "environment"),
        "visibility": plan.request.visibility,
        "visibilities": Run.Visibility.choices,
        "may_prefer": any(role_in_team(request.user, team.pk) == Membership.Role.ADMIN for team in start.teams),
        "arms": _arm_choices(draft),
        "seeds": draft.text("seeds", 1),
        "seed_choices": range(1, experiment.MAX_SEEDS + 1),
        "group_name": draft.text("group"),
    }
    context |= _scheduling(draft, plan) | _model_choice(request, draft)
    context |= form_facts(request, draft, plan, shown.settings) | form_exports(request, draft, plan)
    if start.source is None:
        context |= _preset_choice(draft)
    return render(request, "runs/launch.html", context, status=status)


def form_layout(draft: Draft, plan: LaunchPlan) -> FormLayout:
    """Return all fields of the form, by step."""
    values, base_environment = draft.values, draft.start.config.environment
    name, settings = values["environment"]["name"], values["environment"]["settings"]
    return layout(
        fields.groups(values, draft.start.config, plan.errors),
        fields.environment_settings(
            name, settings, base_environment.settings if base_environment.name == name else {}, plan.errors
        ),
        {
            name: fields.with_labels(f"No effect: {reason}.")
            for name, reason in RunConfig.without_effect(values).items()
        },
        changed_first=draft.start.source is not None,
    )


def form_facts(
    request: HttpRequest, draft: Draft, plan: LaunchPlan, settings: Sequence[fields.Setting]
) -> dict[str, Any]:
    """Return the effects of the settings: problems, differences, estimates, warnings, the runs to launch."""
    start, several = draft.start, len(plan.runs) > 1
    facts: dict[str, Any] = {
        "base_word": "was" if start.source else "preset",
        "base_title": start.source.title if start.source else start.preset,
        "differences": summary.differences(settings),
        "problems": _list_problems(plan.errors, settings),
        "option_errors": {name: text for name, text in plan.errors.items() if name in OPTION_LABELS},
        "capacity": plan.wait(signed_in(request)),
        "devices": plan.capacity.devices,
        "planned": plan.runs,
        "launch_word": _launch_word(plan),
        "title": plan.title,
        "warnings": plan.warnings,
        "estimate": "",
        "state": {
            "errors": {_slot(name, settings): text for name, text in plan.errors.items()},
            "reasons": {setting.name: setting.reason for setting in settings if setting.reason},
        },
    }
    if plan.config is not None:
        facts["estimate"] = estimates.size_sentence(plan.config) + (", each" if several else "")
        facts["figures"] = plan.figures(signed_in(request))
    return facts


def form_exports(request: HttpRequest, draft: Draft, plan: LaunchPlan) -> dict[str, str]:
    """Return the configuration as YAML and as an API call; empty while it is invalid."""
    if plan.config is None:
        return {}
    site = request.build_absolute_uri("/").rstrip("/")
    return {
        "as_yaml": launch_exports.as_yaml(plan.config),
        "as_curl": launch_exports.as_curl(site, plan.request, name_team=len(draft.start.teams) > 1),
    }


def _scheduling(draft: Draft, plan: LaunchPlan) -> dict[str, Any]:
    """Return the context of queue, GPUs and priority."""
    chosen, defaults = plan.request.scheduling, draft.start.scheduling
    classes = plan.capacity.workers.keys() | ({chosen.queue} - {""})  # perhaps without a worker
    return {
        "has_gpus": plan.capacity.has_gpus,
        "priorities": Run.Priority.options(),
        "priority": chosen.priority.name.lower(),
        "queue": draft.text("queue", defaults.queue),
        "classes": device_classes.class_choices(classes),
        "gpus": draft.text("gpus", defaults.gpus),
    }


def _model_choice(request: HttpRequest, draft: Draft) -> dict[str, Any]:
    """Return the context of the model cards, with estimates for the run of the form's source."""
    model = str(draft.values["policy"].get("model") or "")
    base = draft.start.config
    if not base.hosted.url:
        base = base.model_copy(update={"policy": base.policy.model_copy(update={"model": model or POCKET})})
    model_cards = cards.cards(signed_in(request), base, draft.start.preset)
    return {
        "model_cards": model_cards,
        "model": model if any(card.value == model for card in model_cards) else "",
        "far_models": [card for card in model_cards if card.out_of_reach and card.value != model],
        "other_model": model,
    } | cards.polling(model_cards)


def _preset_choice(draft: Draft) -> dict[str, Any]:
    """Return the context of the first step: environment, algorithm and policy."""
    preset, environment = catalogue.get_preset(draft.start.preset), draft.values["environment"]
    name, variant = environment["name"], str(environment["settings"].get("id") or "")
    kept = {"environment": name} | ({"id": variant} if variant else {})
    return {
        "environment_query": "" if name == preset.environment else f"&{urlencode(kept)}",
        "variants": envs.variants(name),
        "variant": variant or _default_variant(name),
        "preset": preset,
        "cards": catalogue.environment_cards(preset),
        "other_environments": catalogue.other_environments(),
        "algorithms": catalogue.arms(preset),
        "policies": catalogue.policies(preset),
    }


def _default_variant(name: str) -> str:
    """Return the default variant of an adapter; empty for other environments."""
    field = envs.settings_model(name).model_fields.get("id") if envs.variants(name) else None
    return str(field.default) if field else ""


def _arm_choices(draft: Draft) -> list[tuple[experiment.ExperimentArm, bool]]:
    """Return (arm, True if it is checked); empty if the source of the form no longer matches its preset."""
    base_arm = experiment.own_arm(draft.start.config, draft.start.preset)
    if base_arm is None:
        return []
    checked = draft.request.arms or [base_arm.key]
    return [(arm, arm.key in checked) for arm in experiment.get_arms(draft.start.preset)]


def _launch_word(plan: LaunchPlan) -> str:
    """Return the text of the button."""
    action = "Download and launch" if plan.needs_download else "Launch"
    return action if len(plan.runs) < 2 else f"{action} {len(plan.runs)} runs"


def _slot(name: str, settings: Sequence[fields.Setting]) -> str:
    """Return the element id of the field."""
    return next((setting.id for setting in settings if setting.name == name), f"f-{name}")


def _list_problems(errors: Mapping[str, str], settings: Sequence[fields.Setting]) -> list[tuple[str, str]]:
    """Return (element id, sentence) of each error; the id is "" for a field that the form does not show."""
    shown = {setting.name: setting for setting in settings}
    problems = []
    for name, text in errors.items():
        setting = shown.get(name)
        label = setting.label if setting else OPTION_LABELS.get(name, name)
        target = setting.id if setting else f"f-{name}" if name in OPTION_LABELS else ""
        problems.append((target, form.sentence(name, label, text) if label else text))
    return problems
