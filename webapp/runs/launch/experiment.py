"""Experiments: one configuration as a group of runs, with several algorithms and several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ValidationError

from trainer.config.computation import computation_digest
from trainer.config.files import load_preset, preset_names, with_values
from trainer.config.run import RunConfig
from webapp.core import formatting
from webapp.runs.launch.overrides import changes

MAX_SEEDS = 5
MAX_GROUP_NAME = 80
MAX_RUN_NAME = 120
NAMES = {"starpo": "StarPO", "starpo_s": "StarPO-S"}


class ExperimentRefused(ValueError):
    """The experiment cannot be launched. `field` is arms, seeds or group; the message continues the field's label."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class ExperimentArm:
    """An algorithm with a preset for the same environment and policy."""

    key: str
    label: str
    preset: str
    config: RunConfig


@dataclass(frozen=True)
class PlannedRun:
    """A run of an experiment."""

    preset: str
    config: RunConfig


@cache
def get_arms(preset: str) -> tuple[ExperimentArm, ...]:
    """Return the presets that differ from this one only in their algorithm, and itself. Empty without a preset."""
    if preset not in preset_names():
        return ()
    environment, _, kind = preset.split("-", 2)
    arms = []
    for name in preset_names():
        config = load_preset(name)
        own_environment, key, own_kind = name.split("-", 2)
        if (own_environment, own_kind) == (environment, kind):
            arms.append(ExperimentArm(key, NAMES.get(key, key.replace("_", " ")), name, config))
    return tuple(arms)


def own_arm(config: RunConfig, preset: str) -> ExperimentArm | None:
    """Return the arm from which the configuration was made; None if its kind or environment has changed since."""
    arm = next((arm for arm in get_arms(preset) if arm.preset == preset), None)
    if arm is None or config.kind != "train" or config.environment.name != arm.config.environment.name:
        return None
    return arm


def plan(config: RunConfig, preset: str, arms: Sequence[str], seeds: int) -> list[PlannedRun]:
    """Return the runs of an experiment, one seed after another.

    The configuration is used unchanged for its own arm. For another arm, the settings in which the two presets differ
    are taken from that arm's preset.

    Args:
        arms: keys of arms; if empty, only the configuration's own arm.
        seeds: number of seeds, counted up from the configuration's seed.
    Raises:
        ExperimentRefused: the number of seeds or an arm is not possible.
    """
    if not 1 <= seeds <= MAX_SEEDS:
        raise ExperimentRefused("seeds", f"must be a whole number from 1 to {MAX_SEEDS}")
    base_arm = own_arm(config, preset)
    if base_arm is None and len(set(arms)) == 1:  # the form sends the one of its preset
        arms = ()
    possible = {arm.key: arm for arm in get_arms(preset)} if base_arm else {}
    unknown = [key for key in arms if key not in possible]
    if unknown:
        raise ExperimentRefused("arms", _not_possible(unknown[0], possible))
    chosen: list[ExperimentArm | None] = [*(possible[key] for key in dict.fromkeys(arms))] or [base_arm]
    several = len(chosen) * seeds > 1
    runs: list[PlannedRun] = []
    for seed in range(config.seed, config.seed + seeds):
        for arm in chosen:
            label = arm.label if arm and len(chosen) > 1 else ""
            settings = {"seed": seed} | _name(config, label, seed if several else None)
            if arm and base_arm and arm is not base_arm:
                settings |= changes(arm.config, base_arm.config) | settings
            changed = _changed(config, settings)
            if arm and any(run.config.title() == changed.title() for run in runs):  # own changes made them alike
                name = f"{changed.title().rpartition(', seed')[0]} · preset {arm.label}, seed {seed}"
                changed = changed.model_copy(update={"name": name[:MAX_RUN_NAME]})
            runs.append(PlannedRun(arm.preset if arm else preset, changed))
    _require_different(runs)
    return runs


def default_name(config: RunConfig, arms: Sequence[str], seeds: int) -> str:
    """Return the default name of the group, e.g. “Sokoban · StarPO and StarPO-S × 3 seeds”."""
    end = f" × {formatting.plural(seeds, 'seed')}" if seeds > 1 else ""
    shown = config.name or config.title().rpartition(", seed")[0]
    if len(set(arms)) > 1:
        names = " and ".join(NAMES.get(key, key) for key in dict.fromkeys(arms))
        shown = f"{config.name or ' + '.join(config.environment.names)} · {names}"
    return shown[: MAX_GROUP_NAME - len(end) - 6].strip() + end


def _not_possible(key: str, possible: Mapping[str, ExperimentArm]) -> str:
    if not possible:
        return "can be chosen only for a training run that starts from a preset of its environment"
    return f"must be among {', '.join(possible)}, not {key!r}"


def _name(config: RunConfig, label: str, seed: int | None) -> dict[str, Any]:
    """Return the setting with the name of one of several runs; runs without a name are named after their settings."""
    if not config.name or seed is None:
        return {}
    end = " · " + ", ".join(filter(None, (label, f"seed {seed}")))
    return {"name": config.name[: MAX_RUN_NAME - len(end)].strip() + end}


def _changed(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    try:
        return with_values(config, settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise ExperimentRefused(
            "seeds" if first["loc"] == ("seed",) else "arms",
            f"cannot all be launched: {'.'.join(map(str, first['loc'])) or 'a setting'}: {first['msg']}",
        ) from None


def _require_different(runs: Sequence[PlannedRun]) -> None:
    """Raise ExperimentRefused if two runs are the same computation, since changed settings made two arms equal."""
    seen = set()
    for run in runs:
        same = computation_digest(run.config)
        if same in seen:
            raise ExperimentRefused("arms", "are the same computation with these settings: choose one of them")
        seen.add(same)
