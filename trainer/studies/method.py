"""Settings of a study's runs as text: the shared ones, and the ones that differ between arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.config.dotted import leaves
from trainer.config.run import RunConfig
from trainer.studies.cell_settings import environment_title

ESTIMATORS: Mapping[str, str] = {
    "gae": "PPO",
    "bi_level_gae": "PPO with bi-level GAE",
    "grpo": "GRPO",
    "rloo": "RLOO",
    "gigpo": "GiGPO",
    "mt_grpo": "MT-GRPO",
    "turn_gae": "PPO over turns",
}
_MANY = 8
"""Maximum number of arms with different values that a row lists; with more, it only says that they differ."""


@dataclass(frozen=True)
class ArmConfig:
    """Configuration of the runs of one arm in one environment."""

    environment: str
    arm: str
    """Title of the arm."""
    name: str
    config: RunConfig


def shared_settings(configs: Sequence[ArmConfig]) -> dict[str, str]:
    """Map each row of the method to its value, or to several values if arms or environments differ.

    Arms that differ from the others of their environment follow in parentheses, and environments that differ from the
    first one follow it, as in “0.0002 (LoRA: 0.002); FrozenLake: 0.0004 (LoRA: 0.004)”.
    """
    rows = {name: _by_environment(configs, describe) for name, describe in _ROWS.items()}
    return {name: value for name, value in rows.items() if value}


def _by_environment(configs: Sequence[ArmConfig], describe: Callable[[RunConfig], str]) -> str:
    values: dict[str, dict[str, str]] = {}
    for arm in configs:
        values.setdefault(arm.environment, {})[arm.arm] = describe(arm.config)
    return across_environments({environment: _by_arm(by_arm) for environment, by_arm in values.items()})


def across_environments(values: Mapping[str, str]) -> str:
    """Return the common value of all environments, or the first environment's value and the different values."""
    first = next(iter(values.values()), "")
    differing = [f"{environment_title(name)}: {value or '–'}" for name, value in values.items() if value != first]
    return "; ".join([first or "–", *differing]) if differing else first


def _by_arm(values: Mapping[str, str]) -> str:
    """Return the most frequent value, with differing arms in parentheses."""
    common = Counter(values.values()).most_common(1)[0][0]
    differing = [f"{arm}: {value or '–'}" for arm, value in values.items() if value != common]
    if len(differing) > _MANY:
        return "differs between arms"
    return f"{common or '–'} ({', '.join(differing)})" if differing else common


def differing_settings(configs: Sequence[ArmConfig]) -> dict[str, dict[str, str]]:
    """Map each arm's name to its values of the settings in which arms differ in some environment."""
    flat = [(arm.environment, arm.name, dict(leaves(arm.config.model_dump(mode="json")))) for arm in configs]
    names = dict.fromkeys(name for _, _, settings in flat for name in settings if name != "name")
    environments = dict.fromkeys(environment for environment, _, _ in flat)
    differing: dict[str, dict[str, str]] = {arm.name: {} for arm in configs}
    for name in names:
        values = {
            environment: {arm: _text(settings, name) for trained_in, arm, settings in flat if trained_in == environment}
            for environment in environments
        }
        if any(len(set(by_arm.values())) > 1 for by_arm in values.values()):
            for arm in differing:
                arm_values = {environment: by_arm[arm] for environment, by_arm in values.items() if by_arm.get(arm)}
                if arm_values:
                    differing[arm][name] = across_environments(arm_values)
    return differing


def _text(settings: Mapping[str, Any], name: str) -> str:
    """Format the value of a setting; empty if there is no such setting."""
    return value_text(settings[name]) if name in settings else ""


def value_text(value: Any) -> str:
    """Format a setting's value for readers."""
    match value:
        case bool():
            return "on" if value else "off"
        case None | []:
            return "none"
        case "":
            return "empty"
        case list():
            return ", ".join(map(str, value))
        case float():
            return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


# -- rows of the method ---------------------------------------------------------------------------------------------


def estimator(config: RunConfig) -> str:
    """Return the advantage estimator, or that there is none because the policy imitates."""
    if config.kind == "sft":
        return "none, imitates solutions"
    algorithm = config.algorithm
    name = ESTIMATORS.get(algorithm.estimator, algorithm.estimator)
    divided = algorithm.normalize_by_std and algorithm.estimator in ("grpo", "gigpo", "mt_grpo")
    return f"{name}, rewards divided by the group's spread" if divided else name


def _size(config: RunConfig) -> str:
    if config.kind == "sft":
        return f"{config.iterations} of {config.sft.batch} solutions"
    return f"{config.iterations}, {config.rollout.groups} × {config.rollout.group_size}"


def _updates(config: RunConfig) -> str:
    return "" if config.kind == "sft" else str(config.algorithm.updates_per_rollout)


def _batch(config: RunConfig) -> str:
    if config.kind == "sft":
        return f"{config.sft.batch} solutions"
    return f"{config.optimizer.mini_batch_trajectories}"


def _learning_rate(config: RunConfig) -> str:
    return f"{config.sft.learning_rate if config.kind == 'sft' else config.optimizer.policy_lr:g}"


def _schedule(config: RunConfig) -> str:
    optimizer = config.optimizer
    text = "constant"
    if config.kind == "sft":
        return text
    if optimizer.lr_schedule != "constant":
        shape, _, end = optimizer.lr_schedule.partition("_to_")
        text = f"{shape} to {f'a {end} of it' if end else 0}"
    return f"{text}, after {optimizer.lr_warmup} rising iterations" if optimizer.lr_warmup else text


def _evaluation(config: RunConfig) -> str:
    return f"{config.evaluation.prompts} evaluation puzzles, T = {config.evaluation.temperature:g}"


_ROWS: Mapping[str, Callable[[RunConfig], str]] = {
    "policy": lambda config: config.policy.model,
    "estimator": estimator,
    "iterations, P × N": _size,
    "updates per rollout": _updates,
    "E, trajectories per optimiser step": _batch,
    "policy learning rate": _learning_rate,
    "learning-rate schedule": _schedule,
    "evaluation": _evaluation,
}
