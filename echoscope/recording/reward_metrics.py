"""Metrics of an iteration's rewards under the names of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, pstdev


def reward_metrics(rewards: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Mean of rewards, and their standard deviation within groups unless every group has a single member.

    Args:
        rewards: group and reward of each trajectory.
    Returns:
        reward/mean and reward/in_group_std (mean over groups); empty without rewards.
    """
    groups: dict[str, list[float]] = {}
    for group, reward in rewards:
        groups.setdefault(group, []).append(reward)
    if not groups:
        return {}
    metrics = {"reward/mean": fmean(reward for members in groups.values() for reward in members)}
    if any(len(members) > 1 for members in groups.values()):
        metrics["reward/in_group_std"] = fmean(pstdev(members) for members in groups.values())
    return metrics
