"""The environments of one run: each with the settings it is played by, and how groups are dealt out among them.

Several environments in one run share the policy and everything about learning; nothing is played here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import envs
from trainer.config.environment import BUDGETS, by_environment
from trainer.config.run import RunConfig
from trainer.metrics.registry import SUCCESS_PREFIX, finite
from trainer.metrics.statistics import mean
from trainer.rollout.runner import GroupPlan
from trainer.rollout.trajectory import Trajectory
from trainer.seeds import Purpose, derive

_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class EnvironmentShare:
    """One environment of a run.

    `number` counts from 0, the run's first environment; `share` of all groups are played in it; `config` is the run's,
    as if this environment were its only one.
    """

    number: int
    share: float
    config: RunConfig

    @property
    def name(self) -> str:
        return self.config.environment.name


def shares_of(config: RunConfig) -> list[EnvironmentShare]:
    """The run's environments, the first one first.

    The rollout's budgets are the first environment's. Another one has those it recommends itself, whatever they are in
    the first, changed by `environment.other_budgets`.
    """
    environment = config.environment
    settings = by_environment(environment.other_settings, "other_settings")
    budgets = by_environment(environment.other_budgets, "other_budgets")
    alone: dict[str, Any] = {"others": {}, "other_settings": {}, "other_budgets": {}}
    found = [
        EnvironmentShare(
            number=0,
            share=1 - sum(environment.others.values()),
            config=config.model_copy(update={"environment": environment.model_copy(update=alone)}),
        )
    ]
    for number, (name, share) in enumerate(environment.others.items(), start=1):
        own = {"name": name, "settings": settings.get(name, {}), "instruction": None}
        recommended = {budget: getattr(envs.spec(name), budget) for budget in BUDGETS}
        place = {
            "environment": environment.model_copy(update=alone | own),
            "rollout": config.rollout.model_copy(update=recommended | budgets.get(name, {})),
        }
        found.append(EnvironmentShare(number, share, config.model_copy(update=place)))
    return found


def assign_groups(shares: Sequence[float], groups: int, iteration: int) -> list[int]:
    """The task of each group of an iteration, in the order of the tasks.

    A task's groups in one iteration are its share of all, rounded down or up. Where the rounding falls moves on from
    iteration to iteration by the golden section, so that the shares hold over many; nothing has to be remembered.

    Args:
        shares: of the tasks, all above 0, adding up to 1.
        groups: of the iteration.
        iteration: counted from 1.
    """
    phase = iteration * _GOLDEN % 1
    ends: list[float] = []
    for share in shares:
        ends.append((ends[-1] if ends else 0.0) + share * groups)
    ends[-1] = float(groups)  # whatever the sum was rounded to
    return [next(task for task, end in enumerate(ends) if group + phase < end) for group in range(groups)]


def train_plans(config: RunConfig, tasks: Sequence[EnvironmentShare], iteration: int) -> list[GroupPlan]:
    """The groups of an iteration: everything drawn depends on the run's seed, the iteration and the group's number."""
    seed, rollout = config.seed, config.rollout
    plans = []
    for group, number in enumerate(assign_groups([task.share for task in tasks], rollout.groups, iteration)):
        place, members = (iteration, group), range(rollout.group_size)
        plans.append(
            GroupPlan(
                group=group,
                seed=derive(seed, Purpose.INITIAL_STATE, *place),
                members=tuple(f"{iteration:05d}-g{group:02d}-n{member:02d}" for member in members),
                dynamics_seeds=tuple(derive(seed, Purpose.DYNAMICS, *place, member) for member in members),
                sampling_seeds=tuple(derive(seed, Purpose.SAMPLING, *place, member) for member in members),
                environment=number,
                config=tasks[number].config,
            )
        )
    return plans


def success_by_environment(trajectories: Iterable[Trajectory], tasks: Sequence[EnvironmentShare]) -> dict[str, float]:
    """success/<Environment> of an iteration's trajectories; nothing for a run in one environment."""
    if len(tasks) < 2:
        return {}
    outcomes: dict[int, list[bool]] = {}
    for trajectory in trajectories:
        outcomes.setdefault(trajectory.environment, []).append(trajectory.success)
    return finite({SUCCESS_PREFIX + tasks[number].name: mean(found) for number, found in outcomes.items()})
