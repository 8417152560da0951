"""Limits of an attempt: its environment's settings and its budgets of turns and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

import envs
from envs.base import EnvSpec
from trainer.config.environment import BUDGETS
from trainer.config.evaluation import parse_suite
from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from webapp.trajectories.models import Trajectory


@dataclass(frozen=True)
class Limits:
    """Budgets of one attempt, and the settings of its environment."""

    turns: int
    actions_per_turn: int
    actions: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of actions in an attempt that fills every turn."""
        return min(self.actions, self.turns * self.actions_per_turn)

    def left(self, turn: int, number: int, used: int) -> int:
        """Return how many actions can still be executed at action `number` of a turn, with it; both 0-based."""
        by_turns = (self.turns - turn) * self.actions_per_turn - number
        return max(0, min(self.actions - used, by_turns))


def get_limits(trajectory: Trajectory) -> Limits | None:
    """Return the limits of the attempt; None if its run's configuration is invalid in this version."""
    name, suite = trajectory.group.environment, trajectory.group.suite
    try:
        config = stored_config(trajectory.run.config)
        settings = get_settings(config, name, suite)
        turns, per_turn, actions = get_budgets(config, envs.spec(name, settings), name, suite)
    except (ValidationError, ValueError):
        return None
    max_steps = settings.get("max_steps")
    return Limits(turns, per_turn, min(actions, max_steps) if isinstance(max_steps, int) else actions, settings)


def get_settings(config: RunConfig, name: str, suite: str) -> dict[str, Any]:
    """Return the environment's settings in a run, from the suite, the run's environment or its entry in the mix."""
    environment = config.environment
    if suite in config.evaluation.suites:
        settings = parse_suite(suite)[1]
    elif name == environment.name:
        settings = environment.settings
    else:
        entry = environment.mixed(name)
        settings = entry.settings if entry else {}
    return settings


def get_budgets(config: RunConfig, spec: EnvSpec, name: str, suite: str) -> tuple[int, int, int]:
    """Return the budgets of turns, of actions per turn and of actions."""
    budgets: dict[str, int] = {budget: getattr(spec, budget) for budget in BUDGETS}
    if suite not in config.evaluation.suites:
        if name == config.environment.name:
            budgets = {budget: getattr(config.rollout, budget) for budget in BUDGETS}
        elif entry := config.environment.mixed(name):
            budgets = entry.budgets
    return budgets["max_turns"], budgets["max_actions_per_turn"], budgets["max_actions"]
