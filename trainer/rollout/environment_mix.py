"""Environment mixture of a run: settings of each environment, and assignment of groups to environments.

The environments of a run share the policy and the learner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from trainer.config.run import RunConfig
from trainer.metrics.registry import SUCCESS_PREFIX, finite
from trainer.metrics.statistics import mean
from trainer.rollout.runner import GroupPlan
from trainer.rollout.trajectory import Trajectory
from trainer.seeds import Purpose, derive

_GOLDEN = (math.sqrt(5) - 1) / 2
_ROUNDING = 1e-9


@dataclass(frozen=True)
class EnvironmentShare:
    """An environment of a run, with its share.

    Attributes:
        number: number of the environment, from 0.
        share: fraction of all groups played in it.
        config: the run's settings as if this were its only environment.
    """

    number: int
    share: float
    config: RunConfig

    @property
    def name(self) -> str:
        return self.config.environment.name


def get_shares(config: RunConfig) -> list[EnvironmentShare]:
    """Return the run's environments in order.

    The rollout's budgets apply to the first environment. The others use their recommended budgets, overridden by the
    budgets of their entry in `environment.mix`.
    """
    environment = config.environment
    shares = [
        EnvironmentShare(
            number=0,
            share=1 - sum(entry.share for entry in environment.mix),
            config=config.model_copy(update={"environment": environment.model_copy(update={"mix": []})}),
        )
    ]
    for number, entry in enumerate(environment.mix, start=1):
        task: dict[str, Any] = {"name": entry.name, "settings": entry.settings, "instruction": None, "mix": []}
        changes = {
            "environment": environment.model_copy(update=task),
            "rollout": config.rollout.model_copy(update=entry.budgets),
        }
        shares.append(EnvironmentShare(number, entry.share, config.model_copy(update=changes)))
    return shares


def assign_groups(shares: Sequence[float], groups: int, iteration: int) -> list[int]:
    """Return the environment number of each group of an iteration, ascending.

    An environment's number of groups in one iteration is its share of all groups, rounded down or up. The rounding
    offset advances by the golden section each iteration, so that the shares are exact over many iterations without any
    state.

    Args:
        shares: shares of the environments, all above 0, with sum 1.
        groups: number of groups of the iteration.
        iteration: counted from 1.
    """
    phase = iteration * _GOLDEN % 1
    ends: list[float] = []
    for share in shares:
        ends.append((ends[-1] if ends else 0.0) + share * groups)
    ends[-1] = float(groups)  # removes the rounding error of the sum
    return [next(number for number, end in enumerate(ends) if group + phase < end) for group in range(groups)]


def interleave(shares: Sequence[float]) -> Iterator[int]:
    """Yield environment numbers endlessly, so that every environment has its share from the start.

    Of the first n numbers, an environment has its share rounded down or up; two equal shares alternate.

    Args:
        shares: shares of the environments, all above 0, with sum 1.
    Source: R. Tijdeman, The chairman assignment problem, Discrete Mathematics 32 (1980).
    """
    margin = 1 / (2 * len(shares) - 2) if len(shares) > 1 else 1.0
    taken = [0] * len(shares)
    for number in count(1):
        due = [share * number - played for share, played in zip(shares, taken, strict=True)]
        # Among the environments that may come next, take the most urgent one. At least one may, up to rounding.
        ready = [candidate for candidate, owed in enumerate(due) if owed >= margin - _ROUNDING]
        chosen = min(ready, key=lambda candidate: (1 - margin - due[candidate]) / shares[candidate])
        taken[chosen] += 1
        yield chosen


def train_plans(config: RunConfig, shares: Sequence[EnvironmentShare], iteration: int) -> list[GroupPlan]:
    """Plan the groups of an iteration; all seeds derive from the run's seed, the iteration and the group's number."""
    numbers = assign_groups([share.share for share in shares], config.rollout.groups, iteration)
    return plan_groups(config, shares, iteration, numbers)


def plan_groups(
    config: RunConfig, shares: Sequence[EnvironmentShare], iteration: int, numbers: Sequence[int], first: int = 0
) -> list[GroupPlan]:
    """Plan groups of an iteration in the environments with these numbers.

    Args:
        first: number of the first group; each group's number is part of its seeds.
    """
    seed = config.seed
    plans = []
    for group, number in enumerate(numbers, start=first):
        seed_path, members = (iteration, group), range(config.rollout.group_size)
        plans.append(
            GroupPlan(
                group=group,
                seed=derive(seed, Purpose.INITIAL_STATE, *seed_path),
                members=_names(iteration, group, len(members)),
                dynamics_seeds=tuple(derive(seed, Purpose.DYNAMICS, *seed_path, member) for member in members),
                sampling_seeds=tuple(derive(seed, Purpose.SAMPLING, *seed_path, member) for member in members),
                environment=number,
                config=shares[number].config,
            )
        )
    return plans


def renumbered(plan: GroupPlan, iteration: int, group: int) -> GroupPlan:
    """Return the same group, with the same seeds, under another number: its journal records belong to a new group."""
    return replace(plan, group=group, members=_names(iteration, group, len(plan.members)))


def _names(iteration: int, group: int, size: int) -> tuple[str, ...]:
    """Return the ids of a training group's trajectories."""
    return tuple(f"{iteration:05d}-g{group:02d}-n{member:02d}" for member in range(size))


def success_by_environment(trajectories: Iterable[Trajectory], shares: Sequence[EnvironmentShare]) -> dict[str, float]:
    """Compute the success/<Environment> metrics of an iteration; empty for a run with one environment."""
    if len(shares) < 2:
        return {}
    outcomes: dict[int, list[bool]] = {}
    for trajectory in trajectories:
        outcomes.setdefault(trajectory.environment, []).append(trajectory.success)
    return finite({SUCCESS_PREFIX + shares[number].name: mean(values) for number, values in outcomes.items()})
