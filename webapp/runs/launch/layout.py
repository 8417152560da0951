"""Steps of the launch form: what comes first, and the groups of all other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from trainer.config.run import RunConfig
from webapp.core import formatting
from webapp.runs.launch import fields
from webapp.runs.launch.fields import Setting, with_labels

ESSENTIALS = {
    "name": "Leave empty for an automatic name.",
    "iterations": "Each is a rollout and an update.",
    "seed": "Random seed of the run.",
    "rollout.groups": "Puzzles in each iteration.",
    "rollout.group_size": "Attempts at each puzzle.",
    "sft.warmup_steps": "On demonstrations, before training; 0: none.",
    "optimizer.policy_lr": "Usually 1e-6 to 1e-3.",
    "sft.learning_rate": "Usually 1e-5 to 1e-3.",
    "algorithm.group_filter": "Puzzles to learn from; std, the widest reward spread: StarPO-S.",
    "algorithm.group_filter_keep": "The others are skipped.",
    "evaluation.every": "0: only before and after training.",
}
"""Settings of the second step, with a short help. They are hidden if they have no effect on the kind of run."""


@dataclass(frozen=True)
class CollapsedSection:
    """A collapsed group of the third step."""

    key: str
    title: str
    about: str
    settings: list[Setting]
    environment: list[Setting]
    """Settings of the chosen environment; only in the section `environment`."""

    @property
    def changed(self) -> str:
        """Badge with the number of changed settings, e.g. “3 changed”; empty for none."""
        count = sum(setting.differs for setting in (*self.settings, *self.environment))
        return f"{count} changed" if count else ""

    @property
    def wrong(self) -> str:
        """Badge with the number of settings that have errors."""
        count = sum(bool(setting.error) for setting in (*self.settings, *self.environment))
        return f"{formatting.plural(count, 'error')}" if count else ""


@dataclass(frozen=True)
class FormLayout:
    """The fields of the form by step. `changed` are the settings of a clone that differ from its run, shown first."""

    changed: list[Setting]
    essentials: list[Setting]
    sections: list[CollapsedSection]

    @cached_property
    def settings(self) -> Mapping[str, Setting]:
        """All settings of the form by name, in their order on the page."""
        rest = (setting for section in self.sections for setting in (*section.settings, *section.environment))
        return {setting.name: setting for setting in (*self.changed, *self.essentials, *rest)}

    @property
    def differences(self) -> list[Setting]:
        """The settings whose values differ from the initial ones."""
        return [setting for setting in self.settings.values() if setting.differs]

    def slot(self, name: str) -> str:
        """Return the element id of a setting or option."""
        return self.settings[name].id if name in self.settings else f"f-{name}"


def layout(values: Mapping[str, Any], base: RunConfig, errors: Mapping[str, str], *, changed_first: bool) -> FormLayout:
    """Distribute the settings over the steps.

    Args:
        values: a configuration as nested data, possibly invalid.
        base: configuration with the initial values.
        errors: errors by dotted name.
        changed_first: True to show changed settings first, as in a clone.
    """
    reasons = {name: with_labels(f"No effect: {reason}.") for name, reason in RunConfig.without_effect(values).items()}
    groups = [
        replace(group, settings=[replace(setting, reason=reasons.get(setting.name, "")) for setting in group.settings])
        for group in fields.groups(values, base, errors)
    ]
    name, settings = values["environment"]["name"], values["environment"]["settings"]
    initial = base.environment.settings if base.environment.name == name else {}
    environment = fields.environment_settings(name, settings, initial, errors)
    every = {setting.name: setting for group in groups for setting in group.settings}
    every |= {name: replace(every[name], help=help, source="") for name, help in ESSENTIALS.items()}
    changed = [setting for setting in every.values() if changed_first and setting.differs]
    taken = {setting.name for setting in changed}
    essentials = [every[name] for name in ESSENTIALS if name not in taken]
    taken |= {setting.name for setting in essentials}
    sections = [
        CollapsedSection(
            group.key,
            group.title,
            group.about,
            [setting for setting in group.settings if setting.name not in taken],
            environment if group.key == "environment" else [],
        )
        for group in groups
    ]
    return FormLayout(changed, essentials, sections)
