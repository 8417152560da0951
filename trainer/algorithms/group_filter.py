"""Uncertainty filter of StarPO-S: selects the groups of a rollout that the update uses.

It reads raw rewards: divided by their own standard deviation, all groups would look equally uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

NOISE = 0.01
"""Standard deviation of rewards below which `snr` sees no signal, and the slack of the sum in `top_p_linear`."""
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
        """True if the trajectories differ in reward; otherwise comparing them gives no learning signal."""
        return self.high - self.low > EQUAL_REWARDS


@dataclass(frozen=True)
class FilterResult:
    """Decision of the filter.

    Attributes:
        kept: whether each group is kept.
        weights: factor of each group's advantages; always 1 except for the soft filter.
        groups: statistics of each group.
        kept_share: share of the groups that are kept.
        kept_std: mean standard deviation of the kept groups; None if there are none.
    """

    kept: list[bool]
    weights: list[float]
    groups: list[GroupStats]
    kept_share: float
    kept_std: float | None


def group_stats(rewards: Sequence[float]) -> GroupStats:
    """Compute the statistics of one group's raw trajectory rewards."""
    if not rewards:
        raise ValueError("a group without trajectories has no statistics")
    low, high = min(rewards), max(rewards)
    std = stdev(rewards) if high - low > EQUAL_REWARDS else 0.0
    return GroupStats(mean=fmean(rewards), std=std, low=low, high=high)


def kept_count(groups: int, keep: float) -> int:
    """Return ceil(keep × groups), at least 1 and at most `groups`."""
    return min(groups, max(1, math.ceil(keep * groups - 1e-9)))


@dataclass(frozen=True)
class Candidates:
    """Groups that a filter chooses among.

    Attributes:
        groups: statistics of all groups of the rollout.
        numbers: ascending indices of the groups that may be kept; at least one unless the filter `may_be_empty`.
        keep: the setting `algorithm.group_filter_keep`.
    """

    groups: Sequence[GroupStats]
    numbers: list[int]
    keep: float

    def first(self, key: Callable[[GroupStats], float]) -> list[int]:
        """Return the share `keep` of all groups with the smallest keys; ties go to the earlier group."""
        count = kept_count(len(self.groups), self.keep)
        return sorted(self.numbers, key=lambda g: key(self.groups[g]))[:count]


def all_candidates(candidates: Candidates) -> list[int]:
    """Keep all candidates."""
    return candidates.numbers


def widest_std(candidates: Candidates) -> list[int]:
    """Keep the share `keep` with the largest standard deviation."""
    return candidates.first(lambda group: -group.std)


def narrowest_std(candidates: Candidates) -> list[int]:
    """Keep the share `keep` with the smallest standard deviation."""
    return candidates.first(lambda group: group.std)


def widest_range(candidates: Candidates) -> list[int]:
    """Keep the share `keep` with the largest distance between best and worst."""
    return candidates.first(lambda group: group.low - group.high)


def signal_share(candidates: Candidates) -> list[int]:
    """Keep the fewest groups of largest std that cover the share `keep` of the total, none below NOISE; at least one.

    RAGEN-2's SNR-aware filter, plus a floor per group and no skipped updates; `linear_top_p` is the published version.
    """
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


def linear_top_p(candidates: Candidates) -> list[int]:
    """Keep the fewest groups of largest std that sum to keep × Σ std − NOISE; none if that is not above 0.

    No group is too narrow by itself, but groups without any spread are never needed for the sum. With keep 1 all
    candidates are kept.
    Source: RAGEN-2, arXiv 2604.06268, the SNR-aware filter, as its published code computes it: strategy top_p with
    `rollout_filter_top_p_prob_mode` linear and `rollout_filter_selection_eps` 0.01.
    """
    if candidates.keep >= 1:
        return candidates.numbers
    groups = candidates.groups
    required = candidates.keep * math.fsum(groups[g].std for g in candidates.numbers) - NOISE
    chosen, held = [], 0.0
    for g in sorted(candidates.numbers, key=lambda g: -groups[g].std):
        if held >= required or groups[g].std <= 0:
            break
        chosen.append(g)
        held += groups[g].std
    return chosen if held >= required else []


def softmax_top_p(candidates: Candidates) -> list[int]:
    """Keep the fewest groups of largest std with a combined share of at least `keep` of the softmax over all stds.

    Each share is positive, so at least one candidate is kept if there are any, and groups without spread may be kept
    too. With keep 1 all are.
    Source: the published code of RAGEN-2, arXiv 2604.06268: strategy top_p with `rollout_filter_top_p_prob_mode`
    softmax, at temperature 1, so that the shares depend on the scale of the rewards. That ties go to the earlier group
    is our choice.
    """
    if candidates.keep >= 1 or not candidates.numbers:
        return candidates.numbers
    groups = candidates.groups
    widest = max(groups[g].std for g in candidates.numbers)
    mass = {g: math.exp(groups[g].std - widest) for g in candidates.numbers}
    required = candidates.keep * math.fsum(mass.values())
    chosen, held = [], 0.0
    for g in sorted(candidates.numbers, key=lambda g: -groups[g].std):
        chosen.append(g)
        held += mass[g]
        if held >= required:
            break
    return chosen


def min_p(candidates: Candidates) -> list[int]:
    """Keep groups with at least the share `keep` of the largest standard deviation."""
    least = candidates.keep * max(candidates.groups[g].std for g in candidates.numbers)
    return [g for g in candidates.numbers if candidates.groups[g].std >= least]


def equal_weights(groups: Sequence[GroupStats]) -> list[float]:
    """Return 1 for every group."""
    return [1.0] * len(groups)


def std_weights(groups: Sequence[GroupStats]) -> list[float]:
    """Divide each standard deviation by the largest; all weights are 1 if none is above 0."""
    widest = max(group.std for group in groups)
    return [group.std / widest for group in groups] if widest > 0 else equal_weights(groups)


@dataclass(frozen=True)
class GroupFilter:
    """An entry of the registry.

    Attributes:
        choose: returns the indices of the groups to keep, at least one unless `may_be_empty`.
        weights: returns the factor of each group's advantages.
        may_be_empty: whether the filter may keep no group, which skips the update. Such a filter gets no candidates if
            `drop_zero_std` drops all groups; other filters then get all groups.
    """

    choose: Callable[[Candidates], list[int]]
    weights: Callable[[Sequence[GroupStats]], list[float]] = equal_weights
    may_be_empty: bool = False


FILTERS: dict[str, GroupFilter] = {
    "none": GroupFilter(all_candidates),
    "std": GroupFilter(widest_std),
    "std_rev": GroupFilter(narrowest_std),
    "range": GroupFilter(widest_range),
    "snr": GroupFilter(signal_share),
    "top_p_linear": GroupFilter(linear_top_p, may_be_empty=True),
    "top_p_softmax": GroupFilter(softmax_top_p, may_be_empty=True),
    "min_p": GroupFilter(min_p),
    "soft": GroupFilter(all_candidates, weights=std_weights),
}
"""Values of `algorithm.group_filter`: a new one is a function and a line here.

Source: StarPO-S, arXiv 2504.20073 (`std`); RAGEN-2, arXiv 2604.06268 (`top_p_linear`, `top_p_softmax`, `min_p`, `soft`;
`snr` is a variant of `top_p_linear`).
"""

LOSS_SCALES: dict[str, Callable[[float], float]] = {
    "none": lambda share: 1.0,
    "linear": lambda share: share,
    "sqrt": math.sqrt,
}
"""Values of `algorithm.filter_loss_scaling`: share of kept groups → factor of their advantages.

Source: RAGEN-2, arXiv 2604.06268 (`filter_loss_scaling` of its published code).
"""

if TYPE_CHECKING:
    FilterMethod = str
    FilterLossScaling = str
else:
    FilterMethod = Literal[tuple(FILTERS)]
    FilterLossScaling = Literal[tuple(LOSS_SCALES)]


def keep_groups(
    rewards_by_group: Sequence[Sequence[float]], method: FilterMethod, keep: float, drop_zero_std: bool
) -> FilterResult:
    """Choose the groups to learn from.

    Args:
        rewards_by_group: for each group the raw rewards R(τ) of its trajectories.
        method: a name of `FILTERS`.
        keep: share of all groups to keep, rounded up; `snr`, `top_p_linear`, `top_p_softmax` and `min_p` read it
            differently.
        drop_zero_std: never keep a group with equal rewards, even if fewer groups than the share remain. If all groups
            have equal rewards, none is kept if the method allows that; otherwise this setting has no effect.
    Returns:
        The choice; at least one group is kept unless the method may keep none. Ties go to the earlier group.
    Raises:
        ValueError: there are no groups.
    """
    groups = [group_stats(rewards) for rewards in rewards_by_group]
    if not groups:
        raise ValueError("no groups to filter: the rollout is empty")
    group_filter = FILTERS[method]
    every = numbers = list(range(len(groups)))
    if drop_zero_std:
        numbers = [g for g in every if groups[g].informative]
        numbers = numbers if numbers or group_filter.may_be_empty else every
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
        kept_std=fmean(groups[g].std for g in chosen) if chosen else None,
    )
