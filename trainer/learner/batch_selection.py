"""Trajectories of the groups kept by the filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer.algorithms.group_filter import LOSS_SCALES, FilterResult, GroupStats, group_stats, keep_within
from trainer.config.algorithm import AlgorithmConfig
from trainer.journal.events import GroupScore, SkipReason
from trainer.rollout.trajectory import Trajectory


@dataclass(frozen=True)
class BatchSelection:
    """Trajectories for an update.

    Attributes:
        scores: scores of all groups, for the journal.
        kept: trajectories of the kept groups; empty if the filter kept no group.
        weights: factor of each kept trajectory's advantages.
        filtered: the filter's result, for the groups among which it chose.
        skipped: reason for skipping the update: the filter kept no group, or the estimator compares within groups and
            the rewards are equal in each kept group. None: there is an update.
    """

    scores: list[GroupScore]
    kept: list[Trajectory]
    weights: list[float]
    filtered: FilterResult
    skipped: SkipReason | None

    @property
    def teaches(self) -> bool:
        """True if there is an update."""
        return self.skipped is None


def select_batch(trajectories: Sequence[Trajectory], algorithm: AlgorithmConfig) -> BatchSelection:
    """Filter the groups of a rollout by their raw rewards R(τ), separately for each environment.

    With dynamic sampling the filter chooses only among the informative groups: the others were replaced.

    Args:
        trajectories: at least one; members of a group in any order. Groups are ordered by their first members.
        algorithm: the filter, its kept share, the scale of the loss and the estimator.
    Raises:
        ValueError: there are no trajectories.
    Source: StarPO-S, arXiv 2504.20073, section 4.2; DAPO, arXiv 2503.14476, section 3.2.
    """
    rewards: dict[int, list[float]] = {}
    for trajectory in trajectories:
        rewards.setdefault(trajectory.group, []).append(trajectory.total_reward)
    if not rewards:
        raise ValueError("no groups to filter: the rollout is empty")
    stats = {group: group_stats(of_group) for group, of_group in rewards.items()}
    offered = [group for group in rewards if stats[group].informative or algorithm.dynamic_sampling_rounds == 1]
    filtered = _filter(rewards, offered, {t.group: t.environment for t in trajectories}, algorithm)
    scale = LOSS_SCALES[algorithm.filter_loss_scaling](filtered.kept_share)
    weights = {
        group: weight * scale
        for group, weight, keep in zip(offered, filtered.weights, filtered.kept, strict=True)
        if keep
    }
    kept = [trajectory for trajectory in trajectories if trajectory.group in weights]
    return BatchSelection(
        scores=[
            GroupScore(group=group, mean=of_group.mean, std=of_group.std, kept=group in weights)
            for group, of_group in stats.items()
        ],
        kept=kept,
        weights=[weights[trajectory.group] for trajectory in kept],
        filtered=filtered,
        skipped=_skip_reason([stats[group] for group in weights], algorithm),
    )


def _filter(
    rewards: Mapping[int, list[float]],
    offered: Sequence[int],
    environments: Mapping[int, int],
    algorithm: AlgorithmConfig,
) -> FilterResult:
    if not offered:
        return FilterResult(kept=[], weights=[], groups=[], kept_share=0.0, kept_std=None)
    return keep_within(
        [rewards[group] for group in offered],
        [environments[group] for group in offered],
        algorithm.group_filter,
        algorithm.group_filter_keep,
        algorithm.drop_zero_std,
    )


def _skip_reason(kept: Sequence[GroupStats], algorithm: AlgorithmConfig) -> SkipReason | None:
    if not kept:
        return "filter"
    informative = any(stats.informative for stats in kept)
    return None if informative or not algorithm.needs_groups else "no_signal"
