"""Settings of a run for its page, by section, with differences from its preset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from trainer.config.dotted import leaves
from trainer.config.files import load_preset, ordered_dump, preset_names
from webapp.runs.launch.fields import full_labels, section_title
from webapp.runs.models import Run

WITHOUT_SECTION = ""
"""Section of the settings without a section, such as the seed."""


@dataclass(frozen=True)
class RunSetting:
    """A setting of a run, and its value in the preset as text; None where the preset has the same value.

    `label` is empty for a setting that this version does not know.
    """

    name: str
    label: str
    value: str
    preset: str | None = None

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0].partition(".")[0] or WITHOUT_SECTION


@dataclass(frozen=True)
class SettingsSection:
    """The settings of one section, in the order of the reference."""

    name: str
    settings: Sequence[RunSetting]

    @property
    def changed(self) -> int:
        """Number of settings that differ from the preset."""
        return sum(setting.preset is not None for setting in self.settings)


def sections(run: Run) -> list[SettingsSection]:
    """Return all settings of a run of Echoscope's trainer, including runs that this version could no longer launch."""
    preset, labels = _preset_values(run.preset), full_labels()
    settings = [
        RunSetting(name, labels.get(name, ""), value_text(value), _other(name, value, preset))
        for name, value in leaves(ordered_dump(run.config))
    ]
    settings.sort(key=lambda setting: setting.section != WITHOUT_SECTION)
    by_section = groupby(settings, lambda setting: setting.section)
    return [SettingsSection(section_title(key), list(settings)) for key, settings in by_section]


def _preset_values(preset: str) -> Mapping[str, Any]:
    """Return the values of the preset by dotted name; empty without one."""
    return dict(leaves(load_preset(preset).model_dump(mode="json"))) if preset in preset_names() else {}


def _other(name: str, value: Any, preset: Mapping[str, Any]) -> str | None:
    if not preset or name == "name" or preset.get(name) == value:
        return None
    return value_text(preset.get(name))


def value_text(value: Any) -> str:
    """Return a value as the page shows it."""
    match value:
        case None | "" | [] | {}:
            return "–"
        case bool():
            return "on" if value else "off"
        case str():
            return value
    return json.dumps(value, ensure_ascii=False)
