"""Settings of a study's cells: preset, scale, environment, arm and seed, applied in this order.

Everything except an arm's changes is the same in all cells of a study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import envs
from trainer.config.dotted import holder
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.studies.study import Arm, Changes, Scale, Study

SMOKE: Changes = {
    "iterations": 2,
    "policy.threads": 1,
    "policy.device": "cpu",
    "rollout.groups": 2,
    "rollout.group_size": 2,
    "rollout.max_turns": 2,
    "rollout.max_response_tokens": 8,
    "optimizer.mini_batch_trajectories": 4,
    "optimizer.micro_batch_tokens": 1024,
    "evaluation.prompts": 2,
    "evaluation.every": 0,
    "checkpoint.keep": 1,
    "sft.demonstrations": 4,
    "sft.batch": 2,
    "warmup.think": True,  # the shipped policy
}
POCKET: Changes = {
    "policy.threads": 1,  # two concurrent cells on two cores
    "iterations": 40,
    "rollout.groups": 8,  # half as many as in the presets: all studies together take a working day instead of two
    "evaluation.every": 20,
    "checkpoint.keep": 1,
}
"""Common settings of all pocket cells, in addition to the pocket presets: P = 8, N = 8."""
POCKET_SOKOBAN: Changes = {
    "optimizer.lr_schedule": "constant",  # as in the paper; half of the preset's iterations leave no time to decay
    "optimizer.lr_warmup": 0,
}
"""Additional settings of pocket cells on Sokoban, for their lr of 2e-4."""


@dataclass(frozen=True)
class Variant:
    """An environment without presets: the environment whose presets it uses, its changes, and its title."""

    preset: str
    title: str
    changes: Changes


VARIANTS: Mapping[str, Variant] = {
    "bandit_rev": Variant("bandit", "BanditRev", {"environment.name": "BanditRev"}),
    "bandit_teacher": Variant(
        "bandit",
        "Bandit (Teacher, Engineer)",
        {"environment.settings": {"low_name": "Teacher", "high_name": "Engineer"}},
    ),
}
_TITLES = {"".join(part.lower() for part in name): name for name in envs.names()}


def environment_title(name: str) -> str:
    """Return the name of a study's environment for tables."""
    if name in VARIANTS:
        return VARIANTS[name].title
    return _TITLES.get(name.replace("_", ""), name)


def configuration(
    study: Study, scale: Scale, environment: str, arm: Arm, seed: int, overrides: Sequence[str] = ()
) -> RunConfig:
    """Return the settings of one cell, with further changes in command-line form (`section.field=value`).

    Raises:
        ValueError: a change is unreadable, or (pydantic's ValidationError) invalid.
    """
    variant = VARIANTS.get(environment, Variant(environment, environment, {}))
    preset = load_preset(f"{variant.preset}-{arm.preset}-{'paper' if scale == 'paper' else 'pocket'}")
    data = preset.model_dump()
    name = f"{study.name}: {environment}, {arm.title}, seed {seed}"
    for changes in (
        {"evaluation.suites": list(study.get_suites(environment)), "name": name},
        variant.changes,
        {}
        if scale == "paper"
        else {**POCKET, **(POCKET_SOKOBAN if variant.preset == "sokoban" else {}), **study.pocket},
        arm.changes,
        arm.paper if scale == "paper" else {},
        SMOKE if scale == "smoke" else {},
        {"seed": seed},
    ):
        for name, value in changes.items():
            section, last = holder(data, name)
            section[last] = _scaled(section[last], value)
    return with_overrides(RunConfig.model_validate(data), overrides)


def _scaled(before: Any, value: Any) -> Any:
    """Compute a setting's new value, which may be relative to the previous one: "× 10", "÷ 10"."""
    sign, _, factor = str(value).partition(" ")
    match sign:
        case "×":
            return before * (int(factor) if isinstance(before, int) else float(factor))
        case "÷":
            return max(1, before // int(factor)) if isinstance(before, int) else before / float(factor)
    return value
