"""The uncertainty filter of StarPO-S: which groups of a rollout the update learns from. Reads raw rewards only.

Normalised rewards would blind it: after division by its own std every group looks equally uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

FilterMethod = Literal["none", "std", "std_rev", "range", "snr", "min_p", "soft"]
NOISE = 0.01  # reward std below which the SNR-aware filter sees no signal (RAGEN-2)
SAME = 1e-6  # rewards closer than this are equal: sums of the same terms in another order differ in the last bits


@dataclass(frozen=True)
class GroupStats:
    """Raw rewards of one group: mean, standard deviation (Bessel; 0 for a group of one), smallest and largest."""

    mean: float
    std: float
    low: float
    high: float

    @property
    def informative(self) -> bool:
        """Whether the trajectories differ in reward at all; if not, a comparison between them teaches nothing."""
        return self.high - self.low > SAME


@dataclass(frozen=True)
class FilterResult:
    """`kept[g]` says whether group g stays; `groups[g]` are its statistics; the rest are the filter's metrics.

    `weights[g]` scales the advantages of the group's trajectories: 1 but for the soft filter.
    """

    kept: list[bool]
    weights: list[float]
    groups: list[GroupStats]
    kept_share: float
    kept_std: float
    in_group_std: float
    zero_std_share: float


def group_stats(rewards: Sequence[float]) -> GroupStats:
    """Statistics of one group's raw trajectory rewards."""
    if not rewards:
        raise ValueError("a group without trajectories has no statistics")
    low, high = min(rewards), max(rewards)
    std = stdev(rewards) if high - low > SAME else 0.0
    return GroupStats(mean=fmean(rewards), std=std, low=low, high=high)


def kept_count(groups: int, keep: float) -> int:
    """ceil(keep × groups), at least one and never more than there are."""
    return min(groups, max(1, math.ceil(keep * groups - 1e-9)))


def keep_groups(
    rewards_by_group: Sequence[Sequence[float]],
    method: FilterMethod,
    keep: float,
    drop_zero_std: bool,
    count: int | None = None,
) -> FilterResult:
    """Choose the groups to learn from.

    Args:
        rewards_by_group: for each group the raw rewards R(τ) of its trajectories.
        method: `std` keeps the groups with the largest standard deviation, `std_rev` those with the smallest, `range`
            those with the largest distance between best and worst, `none` all. `snr` takes groups in the order of
            their standard deviation until together they hold the share `keep` of its sum, and none below NOISE.
            `min_p` keeps the groups with at least the share `keep` of the largest standard deviation. `soft` keeps
            all and weighs each by its standard deviation over the largest.
        keep: share of all groups that is kept, rounded up; for `snr` and `min_p` see there.
        drop_zero_std: groups whose rewards are all equal go whatever the share; the number kept may fall below it.
            When *every* group is like that there is nothing to prefer: the method and the share decide alone.
        count: number of groups to keep instead of the share.
    Returns:
        The choice; at least one group is kept. Of equals the earlier group is kept.
    Source: StarPO-S, arXiv 2504.20073; `snr`, `min_p` and `soft`: RAGEN-2, arXiv 2604.06268.
    """
    groups = [group_stats(rewards) for rewards in rewards_by_group]
    if not groups:
        raise ValueError("no groups to filter: the rollout is empty")
    candidates = list(range(len(groups)))
    if drop_zero_std:
        candidates = [g for g in candidates if groups[g].informative] or candidates
    wanted = kept_count(len(groups), keep) if count is None else max(1, count)
    match method:
        case "none" | "soft":
            chosen = candidates
        case "std":
            chosen = sorted(candidates, key=lambda g: -groups[g].std)[:wanted]
        case "std_rev":
            chosen = sorted(candidates, key=lambda g: groups[g].std)[:wanted]
        case "range":
            chosen = sorted(candidates, key=lambda g: groups[g].low - groups[g].high)[:wanted]
        case "snr":
            chosen = _has_signal(groups, candidates, keep)
        case "min_p":
            least = keep * max(groups[g].std for g in candidates)
            chosen = [g for g in candidates if groups[g].std >= least]
        case _:
            raise ValueError(f"unknown filter {method!r}")
    widest = max(group.std for group in groups)
    weighed = method == "soft" and widest > 0
    kept = [g in set(chosen) for g in range(len(groups))]
    return FilterResult(
        kept=kept,
        weights=[group.std / widest if weighed else 1.0 for group in groups],
        groups=groups,
        kept_share=len(chosen) / len(groups),
        kept_std=fmean(groups[g].std for g in chosen),
        in_group_std=fmean(group.std for group in groups),
        zero_std_share=fmean(not group.informative for group in groups),
    )


def keep_within(
    rewards_by_group: Sequence[Sequence[float]],
    environments: Sequence[int],
    method: FilterMethod,
    keep: float,
    drop_zero_std: bool,
) -> FilterResult:
    """As `keep_groups`, among the groups of each environment for itself.

    Rewards of different environments have different scales: compared with each other, the groups of the one with the
    largest rewards would be the only ones kept.

    Args:
        rewards_by_group, method, keep, drop_zero_std: as in `keep_groups`.
        environments: for each group the number of its environment.
    """
    places: dict[int, list[int]] = {}
    for group, environment in enumerate(environments):
        places.setdefault(environment, []).append(group)
    if len(places) < 2:
        return keep_groups(rewards_by_group, method, keep, drop_zero_std)
    kept, weights = [False] * len(rewards_by_group), [1.0] * len(rewards_by_group)
    groups = [group_stats(rewards) for rewards in rewards_by_group]
    for members in places.values():
        found = keep_groups([rewards_by_group[g] for g in members], method, keep, drop_zero_std)
        for g, stays, weight in zip(members, found.kept, found.weights, strict=True):
            kept[g], weights[g] = stays, weight
    chosen = [g for g, stays in enumerate(kept) if stays]
    if drop_zero_std and any(groups[g].informative for g in chosen):
        chosen = [g for g in chosen if groups[g].informative]
    return FilterResult(
        kept=[g in set(chosen) for g in range(len(groups))],
        weights=weights,
        groups=groups,
        kept_share=len(chosen) / len(groups),
        kept_std=fmean(groups[g].std for g in chosen),
        in_group_std=fmean(group.std for group in groups),
        zero_std_share=fmean(not group.informative for group in groups),
    )


def _has_signal(groups: list[GroupStats], candidates: list[int], share: float) -> list[int]:
    """The fewest groups of largest std that hold `share` of the std of all; the very largest at least."""
    falling = sorted(candidates, key=lambda g: -groups[g].std)
    wanted = share * sum(groups[g].std for g in candidates)
    chosen, held = falling[:1], groups[falling[0]].std
    for g in falling[1:]:
        if held >= wanted - SAME or groups[g].std < NOISE:
            break
        chosen.append(g)
        held += groups[g].std
    return chosen
