"""Trajectories of the groups kept by the filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.algorithms.group_filter import FilterResult, keep_within
from trainer.config.run import AlgorithmConfig
from trainer.journal.events import GroupScore
from trainer.rollout.trajectory import Trajectory


@dataclass(frozen=True)
class BatchSelection:
    """Trajectories for an update.

    Attributes:
        scores: of all groups, for the journal.
        kept: trajectories of the kept groups.
        weights: factor of each kept trajectory's advantages.
        filtered: the filter's result.
        teaches: whether there is a learning signal: False where the estimator compares within groups and the rewards
            of no kept group differ.
    """

    scores: list[GroupScore]
    kept: list[Trajectory]
    weights: list[float]
    filtered: FilterResult
    teaches: bool


def select_batch(trajectories: Sequence[Trajectory], algorithm: AlgorithmConfig) -> BatchSelection:
    """Filter the groups of a rollout by their raw rewards R(τ), separately for each environment.

    Args:
        trajectories: at least one; members of a group in any place. Groups are ordered by their first members.
        algorithm: the filter, the share it keeps and the estimator.
    Raises:
        ValueError: there is no trajectory.
    Source: StarPO-S, arXiv 2504.20073, section 3.2.
    """
    rewards: dict[int, list[float]] = {}
    for trajectory in trajectories:
        rewards.setdefault(trajectory.group, []).append(trajectory.total_reward)
    environment = {trajectory.group: trajectory.environment for trajectory in trajectories}
    filtered = keep_within(
        list(rewards.values()),
        [environment[group] for group in rewards],
        algorithm.group_filter,
        algorithm.group_filter_keep,
        algorithm.drop_zero_std,
    )
    scores = [
        GroupScore(group=group, mean=stats.mean, std=stats.std, kept=keep)
        for group, stats, keep in zip(rewards, filtered.groups, filtered.kept, strict=True)
    ]
    weights = {score.group: weight for score, weight in zip(scores, filtered.weights, strict=True) if score.kept}
    kept = [trajectory for trajectory in trajectories if trajectory.group in weights]
    informative = any(stats.informative for stats, keep in zip(filtered.groups, filtered.kept, strict=True) if keep)
    return BatchSelection(
        scores=scores,
        kept=kept,
        weights=[weights[trajectory.group] for trajectory in kept],
        filtered=filtered,
        teaches=informative or not algorithm.needs_groups,
    )
