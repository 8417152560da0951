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
        """Actions of an attempt with every turn filled."""
        return min(self.actions, self.turns * self.actions_per_turn)

    def left(self, turn: int, number: int, used: int) -> int:
        """Actions that can still be executed, that one included, before action `number` of a turn; both 0-based."""
        by_turns = (self.turns - turn) * self.actions_per_turn - number
        return max(0, min(self.actions - used, by_turns))


def limits_of(trajectory: Trajectory) -> Limits | None:
    """The limits under which it was played; None where its run's configuration is of another version."""
    name, suite = trajectory.group.environment, trajectory.group.suite
    try:
        config = stored_config(trajectory.run.config)
        settings = settings_of(config, name, suite)
        turns, per_turn, actions = budgets_of(config, envs.spec(name, settings), name, suite)
    except (ValidationError, ValueError):
        return None
    own = settings.get("max_steps")
    return Limits(turns, per_turn, min(actions, own) if isinstance(own, int) else actions, settings)


def settings_of(config: RunConfig, name: str, suite: str) -> dict[str, Any]:
    """Settings of an environment in a run: those of the suite, of the run's environment or of its entry in the mix."""
    environment = config.environment
    if suite in config.evaluation.suites:
        settings = parse_suite(suite)[1]
    elif name == environment.name:
        settings = environment.settings
    else:
        entry = environment.mixed(name)
        settings = entry.settings if entry else {}
    return settings


def budgets_of(config: RunConfig, spec: EnvSpec, name: str, suite: str) -> tuple[int, int, int]:
    """Budgets of turns, of actions per turn and of actions."""
    own: dict[str, int] = {budget: getattr(spec, budget) for budget in BUDGETS}
    if suite not in config.evaluation.suites:
        if name == config.environment.name:
            own = {budget: getattr(config.rollout, budget) for budget in BUDGETS}
        elif entry := config.environment.mixed(name):
            own = entry.budgets
    return own["max_turns"], own["max_actions_per_turn"], own["max_actions"]
