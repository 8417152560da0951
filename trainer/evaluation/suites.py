"""Evaluation suites: environment × settings × fixed seeds, under names shared by settings, metrics and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import envs
from trainer.config.environment import BUDGETS
from trainer.config.evaluation import parse_suite
from trainer.config.run import RunConfig
from trainer.rollout.environment_mix import get_shares


@dataclass(frozen=True)
class Suite:
    """Fixed prompts in one environment.

    `config` is the run's configuration as if the suite's environment were its only one. `number` counts the suites of a
    run, from 0 for the run's own environment.
    """

    name: str
    number: int
    config: RunConfig


def get_suites(config: RunConfig) -> list[Suite]:
    """Return the suites of a run: its own environments as in training, then `evaluation.suites`."""
    trained = [(task.name, task.config) for task in get_shares(config)]
    others = [(text, config_for_suite(config, text)) for text in config.evaluation.suites]
    return [Suite(name, number, config) for number, (name, config) in enumerate([*trained, *others])]


def config_for_suite(config: RunConfig, text: str) -> RunConfig:
    """Return the same run in a suite's environment, with the suite's settings and its environment's budgets."""
    name, settings = parse_suite(text)
    alone: dict[str, Any] = {"name": name, "settings": settings, "instruction": None, "mix": []}
    spec = envs.spec(name, settings)
    recommended = {budget: getattr(spec, budget) for budget in BUDGETS}
    return config.model_copy(
        update={
            "environment": config.environment.model_copy(update=alone),
            "rollout": config.rollout.model_copy(update=recommended),
        }
    )
