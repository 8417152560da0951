"""Steps of the launch form: what comes first, and the groups of all other settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from webapp.core import formatting
from webapp.runs.launch.fields import Setting, SettingGroup

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

    @property
    def settings(self) -> list[Setting]:
        """All settings of the form."""
        rest = (setting for section in self.sections for setting in (*section.settings, *section.environment))
        return [*self.changed, *self.essentials, *rest]


def layout(
    groups: Sequence[SettingGroup],
    environment: Iterable[Setting],
    reasons: Mapping[str, str],
    *,
    changed_first: bool,
) -> FormLayout:
    """Distribute the settings over the steps.

    Args:
        groups: all settings of RunConfig.
        environment: settings of the chosen environment.
        reasons: dotted name → reason why the setting has no effect.
        changed_first: True to show changed settings first, as in a clone.
    """
    marked = [
        replace(group, settings=[replace(setting, reason=reasons.get(setting.name, "")) for setting in group.settings])
        for group in groups
    ]
    every = {setting.name: setting for group in marked for setting in group.settings}
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
            list(environment) if group.key == "environment" else [],
        )
        for group in marked
    ]
    return FormLayout(changed, essentials, sections)
