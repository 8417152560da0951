"""Metrics of an iteration's rewards under the names of docs/metrics.md."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from statistics import fmean, pstdev


def mean(values: Collection[float]) -> float | None:
    """Return the mean; None without values, or if their sum is too large for a number."""
    try:
        average = fmean(values) if values else math.nan
    except OverflowError:
        return None
    return average if math.isfinite(average) else None


def reward_metrics(rewards: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of rewards, and their standard deviation within groups unless all groups have one member.

    Args:
        rewards: group and reward of each trajectory.
    Returns:
        reward/mean and reward/in_group_std (mean over groups), each where it is a finite number.
    """
    groups: dict[str, list[float]] = {}
    for group, reward in rewards:
        groups.setdefault(group, []).append(reward)
    means = {"reward/mean": mean([reward for members in groups.values() for reward in members])}
    if any(len(members) > 1 for members in groups.values()):
        means["reward/in_group_std"] = mean([_spread(members) for members in groups.values()])
    return {name: value for name, value in means.items() if value is not None}


def _spread(rewards: list[float]) -> float:
    try:
        return pstdev(rewards)
    except OverflowError:
        return math.inf
