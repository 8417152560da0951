"""Uncertainty filter of StarPO-S: the groups of a rollout that the update uses.

It reads raw rewards: after division by its own standard deviation every group looks equally uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

NOISE = 0.01
"""Standard deviation of rewards below which the SNR-aware filter sees no signal (RAGEN-2)."""
EQUAL_REWARDS = 1e-6
"""Rewards closer than this are equal: sums of the same terms in another order differ in the last bits."""


@dataclass(frozen=True)
class GroupStats:
    """Raw rewards of one group: mean, standard deviation (Bessel; 0 for a group of one), minimum and maximum."""

    mean: float
    std: float
    low: float
    high: float

    @property
    def informative(self) -> bool:
        """Whether the trajectories differ in reward at all; if not, comparing them gives no learning signal."""
        return self.high - self.low > EQUAL_REWARDS


@dataclass(frozen=True)
class FilterResult:
    """Decision of the filter.

    Attributes:
        kept: for each group whether it is kept.
        weights: for each group the factor of its trajectories' advantages: 1 but for the soft filter.
        groups: statistics of each group.
        kept_share: share of the groups that is kept.
        kept_std: mean standard deviation of the kept groups.
    """

    kept: list[bool]
    weights: list[float]
    groups: list[GroupStats]
    kept_share: float
    kept_std: float


def group_stats(rewards: Sequence[float]) -> GroupStats:
    """Statistics of one group's raw trajectory rewards."""
    if not rewards:
        raise ValueError("a group without trajectories has no statistics")
    low, high = min(rewards), max(rewards)
    std = stdev(rewards) if high - low > EQUAL_REWARDS else 0.0
    return GroupStats(mean=fmean(rewards), std=std, low=low, high=high)


def kept_count(groups: int, keep: float) -> int:
    """ceil(keep × groups), at least one and never more than there are."""
    return min(groups, max(1, math.ceil(keep * groups - 1e-9)))


@dataclass(frozen=True)
class Candidates:
    """Groups that a filter chooses among.

    Attributes:
        groups: statistics of all groups of the rollout.
        numbers: indices of those that may be kept, ascending and at least one.
        keep: the setting `algorithm.group_filter_keep`.
    """

    groups: Sequence[GroupStats]
    numbers: list[int]
    keep: float

    def first(self, key: Callable[[GroupStats], float]) -> list[int]:
        """The share `keep` of all groups with the smallest keys; of equals the earlier ones."""
        count = kept_count(len(self.groups), self.keep)
        return sorted(self.numbers, key=lambda g: key(self.groups[g]))[:count]


def all_candidates(candidates: Candidates) -> list[int]:
    """No choice."""
    return candidates.numbers


def widest_std(candidates: Candidates) -> list[int]:
    """The share `keep` with the largest standard deviation."""
    return candidates.first(lambda group: -group.std)


def narrowest_std(candidates: Candidates) -> list[int]:
    """The share `keep` with the smallest standard deviation."""
    return candidates.first(lambda group: group.std)


def widest_range(candidates: Candidates) -> list[int]:
    """The share `keep` with the largest distance between best and worst."""
    return candidates.first(lambda group: group.low - group.high)


def signal_share(candidates: Candidates) -> list[int]:
    """The fewest groups of largest std that hold the share `keep` of the sum of all, none below NOISE; at least one."""
    groups = candidates.groups
    descending = sorted(candidates.numbers, key=lambda g: -groups[g].std)
    required = candidates.keep * sum(groups[g].std for g in candidates.numbers)
    chosen, held = descending[:1], groups[descending[0]].std
    for g in descending[1:]:
        if held >= required - EQUAL_REWARDS or groups[g].std < NOISE:
            break
        chosen.append(g)
        held += groups[g].std
    return chosen


def min_p(candidates: Candidates) -> list[int]:
    """Groups with at least the share `keep` of the largest standard deviation."""
    least = candidates.keep * max(candidates.groups[g].std for g in candidates.numbers)
    return [g for g in candidates.numbers if candidates.groups[g].std >= least]


def equal_weights(groups: Sequence[GroupStats]) -> list[float]:
    """1 for every group."""
    return [1.0] * len(groups)


def std_weights(groups: Sequence[GroupStats]) -> list[float]:
    """Standard deviation over the largest one; 1 for all where there is none."""
    widest = max(group.std for group in groups)
    return [group.std / widest for group in groups] if widest > 0 else equal_weights(groups)


@dataclass(frozen=True)
class GroupFilter:
    """An entry of the registry.

    Attributes:
        choose: indices of the groups to keep, at least one.
        weights: factor of each group's advantages.
    """

    choose: Callable[[Candidates], list[int]]
    weights: Callable[[Sequence[GroupStats]], list[float]] = equal_weights


FILTERS: dict[str, GroupFilter] = {
    "none": GroupFilter(all_candidates),
    "std": GroupFilter(widest_std),
    "std_rev": GroupFilter(narrowest_std),
    "range": GroupFilter(widest_range),
    "snr": GroupFilter(signal_share),
    "min_p": GroupFilter(min_p),
    "soft": GroupFilter(all_candidates, weights=std_weights),
}
"""Values of `algorithm.group_filter`: a new one is a function and a line here.

Source: StarPO-S, arXiv 2504.20073 (`std`); RAGEN-2, arXiv 2604.06268 (`snr`, `min_p`, `soft`).
"""

if TYPE_CHECKING:
    FilterMethod = str
else:
    FilterMethod = Literal[tuple(FILTERS)]


def keep_groups(
    rewards_by_group: Sequence[Sequence[float]], method: FilterMethod, keep: float, drop_zero_std: bool
) -> FilterResult:
    """Choose the groups to learn from.

    Args:
        rewards_by_group: for each group the raw rewards R(τ) of its trajectories.
        method: a name of `FILTERS`.
        keep: share of all groups that is kept, rounded up; `snr` and `min_p` read it differently.
        drop_zero_std: never keep a group whose rewards are all equal, even if fewer than the share remain. Where all
            groups are like that, the method and the share decide alone.
    Returns:
        The choice; at least one group is kept. Of equals the earlier group is kept.
    Raises:
        ValueError: there is no group.
    """
    groups = [group_stats(rewards) for rewards in rewards_by_group]
    if not groups:
        raise ValueError("no groups to filter: the rollout is empty")
    numbers = list(range(len(groups)))
    if drop_zero_std:
        numbers = [g for g in numbers if groups[g].informative] or numbers
    group_filter = FILTERS[method]
    return _result(groups, group_filter.choose(Candidates(groups, numbers, keep)), group_filter.weights(groups))


def keep_within(
    rewards_by_group: Sequence[Sequence[float]],
    environments: Sequence[int],
    method: FilterMethod,
    keep: float,
    drop_zero_std: bool,
) -> FilterResult:
    """`keep_groups` for each environment separately.

    Rewards of different environments have different scales: compared with each other, only the groups of the
    environment with the largest rewards would be kept.

    Args:
        rewards_by_group, method, keep, drop_zero_std: as in `keep_groups`.
        environments: for each group the number of its environment.
    """
    groups_of: dict[int, list[int]] = {}
    for group, environment in enumerate(environments):
        groups_of.setdefault(environment, []).append(group)
    if len(groups_of) < 2:
        return keep_groups(rewards_by_group, method, keep, drop_zero_std)
    groups = [group_stats(rewards) for rewards in rewards_by_group]
    weights, chosen = [1.0] * len(groups), []
    for members in groups_of.values():
        result = keep_groups([rewards_by_group[g] for g in members], method, keep, drop_zero_std)
        for g, is_kept, weight in zip(members, result.kept, result.weights, strict=True):
            weights[g] = weight
            chosen += [g] * is_kept
    if drop_zero_std and any(groups[g].informative for g in chosen):
        chosen = [g for g in chosen if groups[g].informative]
    return _result(groups, sorted(chosen), weights)


def _result(groups: list[GroupStats], chosen: list[int], weights: list[float]) -> FilterResult:
    return FilterResult(
        kept=[g in set(chosen) for g in range(len(groups))],
        weights=weights,
        groups=groups,
        kept_share=len(chosen) / len(groups),
        kept_std=fmean(groups[g].std for g in chosen),
    )
