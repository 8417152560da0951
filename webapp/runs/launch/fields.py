"""Fields of the launch form: RunConfig as groups of settings with their labels, help and limits.

Settings, their help and limits are defined in trainer.config.run and in the environments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import envs
from trainer.config.run import RolloutConfig, RunConfig
from webapp.runs.launch.number_limits import help_with_limits
from webapp.runs.launch.texts import (
    ENVIRONMENT,
    SETTINGS,
    VARIANT,
    Kind,
    base_type,
    data_to_text,
    get_choices,
    get_field_kind,
    is_model,
    is_optional,
)

LABELS = {
    "aggregation": "loss aggregation",
    "alpha": "α",
    "api_key_env": "API key variable",
    "clip_high": "clip high, ε_high",
    "clip_low": "clip low, ε_low",
    "context_turns": "turns in the prompt",
    "critic_lr": "critic learning rate",
    "checkpoint.every": "checkpoint every",
    "sft.learning_rate": "imitation learning rate",
    "warmup_steps": "warm-up steps",
    "drop_zero_std": "drop groups without spread",
    "dtype": "precision",
    "evaluation.every": "evaluation every",
    "entropy_coef": "entropy bonus",
    "gae_lambda": "λ",
    "gamma": "γ",
    "gpu_memory_utilization": "GPU memory utilisation",
    "group_filter_keep": "share of groups kept",
    "group_size": "group size, N",
    "groups": "groups, P",
    "kl_coef": "KL penalty",
    "kl_penalty": "KL placement and estimator",
    "max_cost": "cost limit",
    "max_grad_norm": "gradient norm limit",
    "mini_batch_trajectories": "mini-batch, E",
    "mix": "further environments",
    "normalize_by_std": "normalise by std",
    "policy_lr": "policy learning rate",
    "tis_cap": "importance weight limit",
    "turn_gamma": "γ from turn to turn",
    "updates_per_rollout": "updates per rollout",
    "value_coef": "weight of the critic's loss",
}
"""Labels that differ from the setting's name."""
TITLES = {
    "": "Run",
    "checkpoint": "Checkpoints",
    "echo_trap": "Echo Trap",
    "lora": "LoRA",
    "sft": "Demonstrations (SFT)",
    "warmup": "Warm-up",
}
ABOUT = {"": "Kind, tags, trackers, visibility and place in the queue."}


@dataclass(frozen=True)
class Setting:
    """A field of the form; `value` and `default` are texts, `reason` says why it has no effect at present.

    The choices of a text field are suggestions.
    """

    name: str
    label: str
    kind: Kind
    value: str
    default: str
    help: str = ""
    unit: str = ""
    source: str = ""
    choices: tuple[str, ...] = ()
    integer: bool = False
    optional: bool = False
    error: str = ""
    reason: str = ""

    @property
    def id(self) -> str:
        """Element id, without the dots that CSS would read as classes."""
        return "f-" + self.name.replace(".", "-")

    @property
    def differs(self) -> bool:
        return self.value != self.default

    @property
    def hidden(self) -> bool:
        """True if only the search shows it: it has no effect, its initial value and no error."""
        return bool(self.reason) and not self.differs and not self.error


@dataclass(frozen=True)
class SettingGroup:
    """A section of RunConfig."""

    key: str
    title: str
    about: str
    settings: list[Setting] = field(default_factory=list)


def groups(values: Mapping[str, Any], base: RunConfig, errors: Mapping[str, str] | None = None) -> list[SettingGroup]:
    """Return the fields of the form.

    Args:
        values: a configuration as nested data, possibly invalid.
        base: configuration with the default values of the fields.
    """
    errors = errors or {}
    top = list(_settings(RunConfig, "", values, base.model_dump(), errors))
    result = [SettingGroup("", TITLES[""], ABOUT[""], top)]
    for key, info in RunConfig.model_fields.items():
        section = info.annotation
        if not is_model(section):
            continue
        settings = list(_settings(section, f"{key}.", values.get(key) or {}, getattr(base, key).model_dump(), errors))
        about = (section.__doc__ or "").strip().split("\n")[0]
        result.append(SettingGroup(key, section_title(key), about, settings))
    return result


def environment_settings(
    name: str, values: Mapping[str, Any], base: Mapping[str, Any], errors: Mapping[str, str] | None = None
) -> list[Setting]:
    """Return the fields of an environment's settings; empty for unregistered names."""
    if name not in envs.names():
        return []
    settings = _settings(envs.settings_model(name), f"{SETTINGS}.", values, dict(base), errors or {})
    variants = tuple(envs.variants(name))
    return [
        replace(setting, choices=variants) if variants and setting.name == VARIANT else setting for setting in settings
    ]


def budget_settings(budgets: Mapping[str, int], base: RunConfig) -> list[Setting]:
    """Return the fields of the budgets that an environment sets; empty without any."""
    settings = _settings(RolloutConfig, "rollout.", budgets, base.rollout.model_dump(), {})
    return [setting for setting in settings if setting.name.removeprefix("rollout.") in budgets]


def names() -> list[str]:
    """Return the dotted names of all fields, without the settings of environments."""
    return [name for name, _ in leaves(RunConfig, "") if name != SETTINGS]


def leaves(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Yield (dotted name, field) for every setting of the model."""
    for key, info in model.model_fields.items():
        if is_model(info.annotation):
            yield from leaves(info.annotation, f"{prefix}{key}.")
        else:
            yield prefix + key, info


def _settings(
    model: type[BaseModel], prefix: str, values: Mapping[str, Any], base: Mapping[str, Any], errors: Mapping[str, str]
) -> Iterator[Setting]:
    for key, info in model.model_fields.items():
        name = prefix + key
        if is_model(info.annotation) or name == SETTINGS:
            continue
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        initial = info.get_default(call_default_factory=True)
        default = base.get(key, initial)
        kind = get_field_kind(info, name)
        yield Setting(
            name=name,
            label=_label(name),
            kind=kind,
            value=data_to_text(values.get(key, initial), lines=kind == "long"),
            default=data_to_text(default, lines=kind == "long"),
            help=help_with_limits(info),
            unit=str(extra.get("unit", "")),
            source=str(extra.get("source", "")),
            choices=tuple(envs.names()) if name == ENVIRONMENT else get_choices(info),
            integer=base_type(info.annotation) is int,
            optional=is_optional(info.annotation),
            error=errors.get(name, ""),
        )


def _label(name: str) -> str:
    key = name.rpartition(".")[2]
    text = LABELS.get(name) or LABELS.get(key) or key.replace("_", " ")
    return text if text.startswith(("α", "ε", "γ", "λ")) else text[:1].upper() + text[1:]


@cache
def full_labels() -> dict[str, str]:
    """Return unambiguous labels by dotted name: with the group if several settings have the same label."""
    labels = {name: _label(name) for name in names()}
    often = {label for label in labels.values() if list(labels.values()).count(label) > 1}
    return {
        name: f"{label} ({section_title(name.partition('.')[0])})" if label in often and "." in name else label
        for name, label in labels.items()
    }


def with_labels(text: str) -> str:
    """Replace dotted names of settings in a text by their labels."""
    labels = {name: f"“{label}”" for name, label in full_labels().items()}
    return re.sub(r"\b[a-z_]+\.[a-z_0-9]+", lambda found: labels.get(found[0], found[0]), text)


def section_title(key: str) -> str:
    """Return the title of a section of RunConfig, as forms and pages show it."""
    return TITLES.get(key, key.replace("_", " ").capitalize())
