"""First step of the launch form: environment, algorithm and policy, each choice a shipped preset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import envs
from trainer.config.catalogue import catalogue as models
from trainer.config.files import load_preset, preset_names
from webapp.runs.launch.experiment import NAMES
from webapp.runs.summaries import algorithm_words, size_words

_DIFFERENCES = {"trap": ", Echo Trap", "paper": ", the paper's settings"}
"""Text that distinguishes presets of the same model, by the last part of their names."""


@dataclass(frozen=True)
class Preset:
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
def presets() -> tuple[Preset, ...]:
    """All shipped presets: StarPO before StarPO-S, the pocket policy, which runs on any machine, before others."""
    labels = {name: entry.label for entry in models().values() for name in (entry.name, entry.hub_id)}
    found = []
    for name in preset_names():
        config = load_preset(name)
        _, arm, kind = name.split("-", 2)
        model = algorithm_words(config.model_dump()).partition(" · ")[2]
        label = labels.get(config.policy.model, model[:1].upper() + model[1:])
        difference = _DIFFERENCES.get(kind, "")
        found.append(
            Preset(
                name=name,
                environment=config.environment.name,
                arm=arm,
                arm_label=NAMES.get(arm, arm.replace("_", " ")),
                model=model + difference,
                model_label=label + difference,
                needs_gpu=config.policy.device == "cuda",
                size=size_words(config),
            )
        )
    return tuple(sorted(found, key=lambda each: (each.model != "pocket policy", each.model, each.arm)))


def preset_of(name: str) -> Preset:
    """The preset of that name, which exists."""
    return next(each for each in presets() if each.name == name)


def environment_cards(chosen: Preset) -> list[EnvironmentCard]:
    """Environments with presets; each card keeps algorithm and policy where the environment has them."""
    names = {each.environment for each in presets()}
    result = []
    for name in sorted(names, key=envs.names().index):
        own = [each for each in presets() if each.environment == name]
        best = min(own, key=lambda each: (each.model != chosen.model, each.arm != chosen.arm))
        result.append(EnvironmentCard(name, envs.spec(name).title, envs.spec(name).summary, best.name))
    return result


def other_environments() -> list[str]:
    """Registered environments without a preset of their own."""
    covered = {each.environment for each in presets()}
    return [name for name in envs.names() if name not in covered]


def arms(chosen: Preset) -> list[Preset]:
    """The algorithms for the environment and the policy of a preset, itself among them."""
    return [each for each in presets() if (each.environment, each.model) == (chosen.environment, chosen.model)]


def policies(chosen: Preset) -> list[Preset]:
    """The policies for the environment and the algorithm of a preset, itself among them."""
    return [each for each in presets() if (each.environment, each.arm) == (chosen.environment, chosen.arm)]
