"""Contents of the launch page: the form, the effects of its settings, and its exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.http import urlencode

import envs
from trainer.config.run import POCKET
from webapp.core import ids
from webapp.pages.runs.launch_form import MAX_LAUNCH_KEY, LaunchForm
from webapp.runs.launch import catalogue, experiment, launch_exports
from webapp.runs.launch.form import sentence
from webapp.runs.launch.planning import LaunchPlan
from webapp.runs.model_cards import cards
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.teams.access import role_in_team
from webapp.teams.models import Membership

OPTION_LABELS = {
    "team": "Team",
    "queue": "Device",
    "gpus": "GPUs",
    "arms": "The algorithms",
    "seeds": "Seeds",
    "group": "Group name",
}
"""Fields of the form that are not settings of the run."""


def page_context(form: LaunchForm, site: str) -> dict[str, Any]:
    """Return the context of the whole page. `site`: see form_exports."""
    start, request = form.start, form.plan.request
    context = {
        "page": "launch",
        "source": start.source,
        "chosen": start.preset,
        "launch_key": start.text("launch_key")[:MAX_LAUNCH_KEY] or ids.token(),
        "environment": form.settings.data["environment"]["name"],
        "visibilities": Run.Visibility.choices,
        "may_prefer": any(role_in_team(start.user, team.pk) == Membership.Role.ADMIN for team in start.teams),
        "arms": _arm_choices(form),
        "seeds": start.text("seeds", 1),
        "seed_choices": range(1, experiment.MAX_SEEDS + 1),
        "group_name": start.text("group"),
        "priorities": Run.Priority.options(),
        "priority": request.scheduling.priority.name.lower(),
        "queue": start.text("queue", start.scheduling.queue),
        "classes": _classes(form.plan),
        "gpus": start.text("gpus", start.scheduling.gpus),
    }
    context |= _model_choice(form) | form_facts(form) | form_exports(form, site)
    return context if start.source else context | _preset_choice(form)


def form_facts(form: LaunchForm) -> dict[str, Any]:
    """Return the context of the effects of the settings: problems, differences, and the plan of the runs."""
    errors, layout = form.plan.errors, form.layout
    return {
        "form": form,
        "plan": form.plan,
        "has_gpus": form.plan.capacity.has_gpus,
        "base_word": form.start.word,
        "differences": layout.differences,
        "problems": [_problem(form, name, text) for name, text in errors.items()],
        "launch_word": _launch_word(form.plan),
        "state": {
            "errors": {layout.slot(name): text for name, text in errors.items()},
            "reasons": {setting.name: setting.reason for setting in layout.settings.values() if setting.reason},
        },
    }


def form_exports(form: LaunchForm, site: str) -> dict[str, str]:
    """Return the configuration as YAML and as an API call; empty while it is invalid. `site`: see as_curl."""
    plan = form.plan
    if plan.config is None:
        return {}
    return {
        "as_yaml": launch_exports.as_yaml(plan.config),
        "as_curl": launch_exports.as_curl(site, plan.request, name_team=len(form.start.teams) > 1),
    }


def _problem(form: LaunchForm, name: str, text: str) -> tuple[str, str]:
    """Return (element id, sentence) of an error; the id is "" for a field that the form does not show."""
    setting = form.layout.settings.get(name)
    label = setting.label if setting else OPTION_LABELS.get(name, name)
    slot = form.layout.slot(name) if setting or name in OPTION_LABELS else ""
    return slot, sentence(name, label, text) if label else text


def _launch_word(plan: LaunchPlan) -> str:
    """Return the text of the button."""
    action = "Download and launch" if plan.needs_download else "Launch"
    return action if len(plan.runs) < 2 else f"{action} {len(plan.runs)} runs"


def _arm_choices(form: LaunchForm) -> list[tuple[experiment.ExperimentArm, bool]]:
    """Return (arm, True if it is checked); empty if the source of the form no longer matches its preset."""
    start = form.start
    own_arm = experiment.own_arm(start.config, start.preset)
    if own_arm is None:
        return []
    checked = form.plan.request.arms or [own_arm.key]
    return [(arm, arm.key in checked) for arm in experiment.get_arms(start.preset)]


def _classes(plan: LaunchPlan) -> Sequence[str]:
    """Return the device classes to choose from, with the chosen one, which may be without a worker."""
    return device_classes.class_choices(plan.capacity.workers.keys() | ({plan.request.scheduling.queue} - {""}))


def _model_choice(form: LaunchForm) -> dict[str, Any]:
    """Return the context of the model cards, with estimates for the run of the form's source."""
    start, model = form.start, str(form.settings.data["policy"].get("model") or "")
    base = start.config
    if not base.hosted.url:
        base = base.model_copy(update={"policy": base.policy.model_copy(update={"model": model or POCKET})})
    model_cards = cards.cards(start.user, base, start.preset)
    return {
        "model_cards": model_cards,
        "model": model if any(card.value == model for card in model_cards) else "",
        "far_models": [card for card in model_cards if card.out_of_reach and card.value != model],
        "other_model": model,
    } | cards.polling(model_cards)


def _preset_choice(form: LaunchForm) -> dict[str, Any]:
    """Return the context of the first step: environment, algorithm and policy."""
    preset, environment = catalogue.get_preset(form.start.preset), form.settings.data["environment"]
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
