"""First step of the launch form: environment, algorithm and policy, each choice a shipped preset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import envs
from trainer.config.catalogue import catalogue as models
from trainer.config.files import find_preset, load_preset, preset_names
from webapp.runs.launch.experiment import NAMES
from webapp.runs.summaries import algorithm_text, length_text

DEFAULT_PRESET = "sokoban-starpo_s-pocket"
_DIFFERENCES = {"trap": ", Echo Trap", "paper": ", the paper's settings"}
"""Text that distinguishes presets of the same model, by the last part of their names."""


@dataclass(frozen=True)
class PresetChoice:
    """A shipped preset as a choice. `model` distinguishes the policies, `model_label` names them on the page."""

    name: str
    environment: str
    arm: str
    arm_label: str
    model: str
    model_label: str
    needs_gpu: bool
    size: str

    @property
    def where(self) -> str:
        return "needs an NVIDIA GPU" if self.needs_gpu else "any machine"


@dataclass(frozen=True)
class EnvironmentCard:
    """An environment of the first step; `preset` is the one that its card chooses."""

    name: str
    title: str
    summary: str
    preset: str


@cache
def presets() -> tuple[PresetChoice, ...]:
    """Return all shipped presets: first the pocket policy, which runs on any machine, and StarPO before StarPO-S."""
    labels = {name: entry.label for entry in models().values() for name in (entry.name, entry.hub_id)}
    result = []
    for name in preset_names():
        config = load_preset(name)
        _, arm, kind = name.split("-", 2)
        model = algorithm_text(config.model_dump()).partition(" · ")[2]
        label = labels.get(config.policy.model, model[:1].upper() + model[1:])
        difference = _DIFFERENCES.get(kind, "")
        result.append(
            PresetChoice(
                name=name,
                environment=config.environment.name,
                arm=arm,
                arm_label=NAMES.get(arm, arm.replace("_", " ")),
                model=model + difference,
                model_label=label + difference,
                needs_gpu=config.policy.device == "cuda",
                size=length_text(config),
            )
        )
    return tuple(sorted(result, key=lambda preset: (preset.model != "pocket policy", preset.model, preset.arm)))


def choose_preset(name: str, environment: str = "") -> str:
    """Return the full name of a named preset, or of one of the environment, preferably for any machine.

    The default preset is the choice for unknown names and environments.
    """
    if name or not environment:
        return find_preset(name) or DEFAULT_PRESET
    matching = [preset.name for preset in presets() if preset.environment == environment]
    return min(matching, key=lambda found: ("pocket" not in found, "starpo_s" not in found), default=DEFAULT_PRESET)


def get_preset(name: str) -> PresetChoice:
    """Return the preset with this name, which must exist."""
    return next(preset for preset in presets() if preset.name == name)


def environment_cards(chosen: PresetChoice) -> list[EnvironmentCard]:
    """Return the environments with presets; each card keeps algorithm and policy if the environment has them."""
    names = {preset.environment for preset in presets()}
    result = []
    for name in sorted(names, key=envs.names().index):
        candidates = [preset for preset in presets() if preset.environment == name]
        best = min(candidates, key=lambda preset: (preset.model != chosen.model, preset.arm != chosen.arm))
        result.append(EnvironmentCard(name, envs.spec(name).title, envs.spec(name).summary, best.name))
    return result


def other_environments() -> list[str]:
    """Return the registered environments without presets."""
    covered = {preset.environment for preset in presets()}
    return [name for name in envs.names() if name not in covered]


def arms(chosen: PresetChoice) -> list[PresetChoice]:
    """Return the presets with the environment and the policy of the chosen one, for each algorithm."""
    return [preset for preset in presets() if (preset.environment, preset.model) == (chosen.environment, chosen.model)]


def policies(chosen: PresetChoice) -> list[PresetChoice]:
    """Return the presets with the environment and the algorithm of the chosen one, for each policy."""
    return [preset for preset in presets() if (preset.environment, preset.arm) == (chosen.environment, chosen.arm)]
