"""Settings of a study's runs in words: those that they share, and those in which the arms differ."""

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
}
_MANY = 8
"""Arms with values of their own that a row lists; with more, it only says that they differ."""


@dataclass(frozen=True)
class ArmConfig:
    """Configuration of the runs of one arm in one environment."""

    environment: str
    arm: str
    """Its title."""
    name: str
    config: RunConfig


def shared_settings(configs: Sequence[ArmConfig]) -> dict[str, str]:
    """Row of the method → its value; where arms or environments differ, the value of each.

    An arm that differs from the others of its environment follows in parentheses, and environments that differ from
    the first one after it, as in “0.0002 (LoRA: 0.002); FrozenLake: 0.0004 (LoRA: 0.004)”.
    """
    rows = {name: _by_environment(configs, words) for name, words in _ROWS.items()}
    return {name: value for name, value in rows.items() if value}


def _by_environment(configs: Sequence[ArmConfig], words: Callable[[RunConfig], str]) -> str:
    values: dict[str, dict[str, str]] = {}
    for one in configs:
        values.setdefault(one.environment, {})[one.arm] = words(one.config)
    return across_environments({environment: _by_arm(own) for environment, own in values.items()})


def across_environments(values: Mapping[str, str]) -> str:
    """One value if all environments agree, else that of the first one and those of others that differ from it."""
    first = next(iter(values.values()), "")
    differing = [f"{environment_title(name)}: {value or '–'}" for name, value in values.items() if value != first]
    return "; ".join([first or "–", *differing]) if differing else first


def _by_arm(values: Mapping[str, str]) -> str:
    """The most frequent value, with arms that have another one in parentheses."""
    common = Counter(values.values()).most_common(1)[0][0]
    differing = [f"{arm}: {value or '–'}" for arm, value in values.items() if value != common]
    if len(differing) > _MANY:
        return "differs between arms"
    return f"{common or '–'} ({', '.join(differing)})" if differing else common


def differing_settings(configs: Sequence[ArmConfig]) -> dict[str, dict[str, str]]:
    """Name of an arm → the settings in which arms differ in some environment, each with the arm's value there."""
    settings = [(one.environment, one.name, dict(leaves(one.config.model_dump(mode="json")))) for one in configs]
    names = dict.fromkeys(name for _, _, own in settings for name in own if name != "name")
    environments = dict.fromkeys(environment for environment, _, _ in settings)
    found: dict[str, dict[str, str]] = {one.name: {} for one in configs}
    for name in names:
        values = {
            environment: {arm: _text(own, name) for place, arm, own in settings if place == environment}
            for environment in environments
        }
        if any(len(set(own.values())) > 1 for own in values.values()):
            for arm in found:
                own = {place: by_arm[arm] for place, by_arm in values.items() if by_arm.get(arm)}
                if own:
                    found[arm][name] = across_environments(own)
    return found


def _text(settings: Mapping[str, Any], name: str) -> str:
    """The value of a setting, empty if there is none of that name."""
    return value_text(settings[name]) if name in settings else ""


def value_text(value: Any) -> str:
    """A value of a setting for readers."""
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
    """Advantage estimator, or that there is none because the policy imitates."""
    if config.kind == "sft":
        return "none, imitates solutions"
    algorithm = config.algorithm
    name = ESTIMATORS.get(algorithm.estimator, algorithm.estimator)
    divided = algorithm.normalize_by_std and algorithm.estimator in ("grpo", "gigpo")
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
    words = "constant"
    if config.kind == "sft":
        return words
    if optimizer.lr_schedule != "constant":
        words = f"{optimizer.lr_schedule} to {f'{optimizer.lr_min_ratio:g} of it' if optimizer.lr_min_ratio else 0}"
    return f"{words}, after {optimizer.lr_warmup} rising iterations" if optimizer.lr_warmup else words


def _evaluation(config: RunConfig) -> str:
    return f"{config.evaluation.prompts} fixed prompts, T = {config.evaluation.temperature:g}"


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
