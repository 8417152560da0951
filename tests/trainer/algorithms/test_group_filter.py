from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.algorithms.group_filter import (
    FILTERS,
    LOSS_SCALES,
    FilterMethod,
    group_stats,
    keep_groups,
    keep_within,
    kept_count,
)

REWARD = st.sampled_from([-1.1, -1.0, -0.5, 0.0, 0.1, 1.0, 9.8, 10.9])
ROLLOUTS = st.lists(st.lists(REWARD, min_size=1, max_size=6), min_size=1, max_size=12)
METHODS: list[FilterMethod] = ["none", "std", "std_rev", "range"]
FLAT, NARROW, WIDE, WIDEST = [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 5.0, 5.0], [-1.0, -1.0, 10.9, 10.9]


@given(rollout=ROLLOUTS, method=st.sampled_from(METHODS), keep=st.floats(0.01, 1), drop=st.booleans())
def test_at_least_one_group_and_never_more_than_the_share_is_kept(
    rollout: list[list[float]], method: FilterMethod, keep: float, drop: bool
) -> None:
    found = keep_groups(rollout, method, keep, drop)
    limit = len(rollout) if method == "none" else kept_count(len(rollout), keep)
    assert 1 <= sum(found.kept) <= limit
    assert found.kept_share == sum(found.kept) / len(rollout)
    if drop and any(group.informative for group in found.groups):
        assert all(group.informative for group, kept in zip(found.groups, found.kept, strict=True) if kept)


@given(rollout=ROLLOUTS, keep=st.floats(0.01, 1))
def test_no_dropped_group_has_a_wider_spread_than_a_kept_one(rollout: list[list[float]], keep: float) -> None:
    found = keep_groups(rollout, "std", keep, False)
    kept = [group.std for group, stays in zip(found.groups, found.kept, strict=True) if stays]
    gone = [group.std for group, stays in zip(found.groups, found.kept, strict=True) if not stays]
    assert min(kept) >= max(gone, default=0.0)


@given(rollout=ROLLOUTS, shift=st.sampled_from([-3.0, 0.5, 100.0]))
def test_a_reward_offset_does_not_change_the_selected_groups(rollout: list[list[float]], shift: float) -> None:
    before = keep_groups(rollout, "none", 1.0, True)
    after = keep_groups([[reward + shift for reward in group] for group in rollout], "none", 1.0, True)
    assert before.kept == after.kept


def test_each_method_keeps_the_documented_groups() -> None:
    rollout = [NARROW, WIDEST, FLAT, WIDE]
    assert keep_groups(rollout, "none", 0.5, False).kept == [True, True, True, True]
    assert keep_groups(rollout, "std", 0.5, False).kept == [False, True, False, True]
    assert keep_groups(rollout, "std_rev", 0.5, False).kept == [True, False, True, False]
    assert keep_groups([[0, 0, 0, 3.0], [0, 0, 2.5, 2.5]], "range", 0.5, False).kept == [True, False]
    assert keep_groups([[0, 0, 0, 2.9], [0, 0, 2.8, 2.8]], "std", 0.5, False).kept == [False, True]


def test_selection_uses_raw_rewards_not_normalised_ones() -> None:
    """After division by its own std every one of these groups has std 1: normalised scores could not rank them."""
    assert keep_groups([[0.0, 0.1], [0.0, 10.0], [0.0, 1.0]], "std", 0.1, True).kept == [False, True, False]


@pytest.mark.parametrize(
    ("groups", "keep", "count"), [(8, 0.25, 2), (8, 0.26, 3), (4, 0.1, 1), (10, 0.7, 7), (1, 0.01, 1), (3, 1.0, 3)]
)
def test_the_share_is_rounded_up_to_at_least_one_group(groups: int, keep: float, count: int) -> None:
    assert kept_count(groups, keep) == count


def test_groups_without_spread_are_dropped_at_any_share() -> None:
    found = keep_groups([FLAT, WIDE, FLAT, FLAT], "std", 0.75, True)
    assert found.kept == [False, True, False, False]
    assert keep_groups([FLAT, WIDE], "none", 1.0, True).kept == [False, True]


def test_std_rev_keeps_the_smallest_nonzero_spread() -> None:
    assert keep_groups([FLAT, NARROW, WIDE], "std_rev", 0.3, True).kept == [False, True, False]


def test_without_any_spread_the_share_alone_decides() -> None:
    found = keep_groups([FLAT] * 4, "std", 0.5, True)
    assert found.kept == [True, True, False, False]
    assert found.kept_std == 0.0


def test_sums_of_the_same_terms_in_another_order_count_as_equal() -> None:
    same = [0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1]
    assert same[0] != same[1]
    found = keep_groups([same, WIDE], "none", 1.0, True)
    assert found.kept == [False, True]
    assert found.groups[0].std == 0.0


def test_statistics_describe_the_raw_rewards() -> None:
    found = keep_groups([[0.0, 2.0], [1.0, 1.0]], "std", 0.5, True)
    assert found.groups[0].mean == 1.0
    assert found.groups[0].std == pytest.approx(2**0.5)
    assert found.kept_std == pytest.approx(2**0.5)


def test_an_empty_rollout_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        keep_groups([], "std", 0.5, True)


def test_the_snr_filter_keeps_the_fewest_groups_with_the_share_of_total_spread() -> None:
    rollout = [[0.0, 1.0], [0.0, 10.0], FLAT, [0.0, 9.0], [0.0, 0.005]]
    assert keep_groups(rollout, "snr", 0.9, False).kept == [False, True, False, True, False]
    assert keep_groups(rollout, "snr", 0.4, False).kept == [False, True, False, False, False]
    assert keep_groups(rollout, "snr", 1.0, False).kept == [True, True, False, True, False], "noise is no signal"


def test_min_p_keeps_groups_relative_to_the_widest_spread() -> None:
    rollout = [[0.0, 1.0], [0.0, 10.0], FLAT, [0.0, 6.0]]
    assert keep_groups(rollout, "min_p", 0.5, True).kept == [False, True, False, True]
    assert keep_groups(rollout, "min_p", 0.05, True).kept == [True, True, False, True]


@given(rollout=ROLLOUTS, method=st.sampled_from(["snr", "min_p", "soft"]), keep=st.floats(0.01, 1), drop=st.booleans())
def test_newer_filters_keep_the_widest_group_with_bounded_weights(
    rollout: list[list[float]], method: FilterMethod, keep: float, drop: bool
) -> None:
    found = keep_groups(rollout, method, keep, drop)
    widest = max(range(len(rollout)), key=lambda g: found.groups[g].std)
    assert found.kept[widest]
    assert all(0 <= weight <= 1 for weight in found.weights)
    assert found.weights[widest] == 1.0


def test_soft_weights_are_relative_to_the_widest_spread_else_one() -> None:
    rollout = [[0.0, 5.0], [0.0, 10.0], FLAT]
    assert keep_groups(rollout, "soft", 1.0, False).weights == pytest.approx([0.5, 1.0, 0.0])
    assert keep_groups(rollout, "std", 0.5, False).weights == [1.0, 1.0, 1.0]
    assert keep_groups([FLAT, FLAT], "soft", 1.0, False).weights == [1.0, 1.0], "nothing to compare"


SPREADS = st.lists(st.floats(0, 12) | st.sampled_from([0.0, 0.003, 0.01, 1.0]), min_size=1, max_size=10)


def groups_of(spreads: list[float]) -> list[list[float]]:
    """A group of two for each standard deviation."""
    return [[0.0, spread * math.sqrt(2)] for spread in spreads]


def stds(rollout: list[list[float]]) -> list[float]:
    return [group_stats(rewards).std for rewards in rollout]


def published(spreads: list[float], share: float, include_zero: bool, mode: str) -> set[int]:
    """RAGEN-2's top-p rule, written out: sort by spread, add groups until the threshold is reached."""
    candidates = [g for g, spread in enumerate(spreads) if include_zero or spread > 0]
    if share >= 1 or not candidates:
        return set(candidates)
    order = sorted(candidates, key=lambda g: -spreads[g])
    if mode == "linear":
        threshold = share * sum(spreads[g] for g in candidates) - 0.01
        total, kept = 0.0, []
        for g in order:
            if total >= threshold or spreads[g] <= 0:
                break
            total += spreads[g]
            kept.append(g)
        return set(kept) if total >= threshold else set()
    weights = [math.exp(spreads[g]) for g in order]
    for count in range(1, len(order) + 1):
        if sum(weights[:count]) >= share * sum(weights):
            return set(order[:count])
    return set(order)


@pytest.mark.parametrize("mode", ["linear", "softmax"])
@given(spreads=SPREADS, keep=st.floats(0.01, 0.999) | st.just(1.0), drop=st.booleans())
def test_the_top_p_filters_follow_the_published_rule(mode: str, spreads: list[float], keep: float, drop: bool) -> None:
    rollout = groups_of(spreads)
    spreads = stds(rollout)
    mass = [math.exp(spread) if mode == "softmax" else spread for spread in sorted(spreads, reverse=True)]
    threshold = keep * sum(mass) - (0.01 if mode == "linear" else 0.0)
    for count in range(len(mass) + 1):  # sums in another order may differ in the last bit
        if math.isclose(sum(mass[:count]), threshold, rel_tol=1e-9, abs_tol=1e-9):
            return
    found = keep_groups(rollout, f"top_p_{mode}", keep, drop)
    assert {g for g, kept in enumerate(found.kept) if kept} == published(spreads, keep, not drop, mode)
    assert found.weights == [1.0] * len(rollout)


def test_the_linear_top_p_filter_keeps_none_where_the_total_spread_is_tiny() -> None:
    tiny = groups_of([0.004, 0.003, 0.002])
    assert keep_groups(tiny, "top_p_linear", 0.9, True).kept == [False, False, False]
    assert sum(keep_groups(tiny, "snr", 0.9, True).kept) == 1, "ours keeps at least one"
    found = keep_groups([FLAT, FLAT], "top_p_linear", 0.9, False)
    assert (found.kept, found.kept_share, found.kept_std) == ([False, False], 0.0, None)


def test_the_linear_top_p_filter_has_no_floor_per_group() -> None:
    rollout = groups_of([10.0, 0.009, 0.008, 0.007])
    assert keep_groups(rollout, "top_p_linear", 0.9999, True).kept == [True, True, True, False]
    assert keep_groups(rollout, "snr", 0.9999, True).kept == [True, False, False, False]


def test_the_softmax_top_p_filter_may_keep_groups_without_spread() -> None:
    rollout = groups_of([1.0, 0.0, 0.0, 0.0])  # shares 0.475, 0.175, 0.175, 0.175
    assert keep_groups(rollout, "top_p_softmax", 0.6, False).kept == [True, True, False, False]
    assert keep_groups(rollout, "top_p_softmax", 0.6, True).kept == [True, False, False, False]
    assert keep_groups([FLAT, FLAT], "top_p_softmax", 0.9, True).kept == [False, False]
    assert keep_groups(groups_of([5000.0, 1.0]), "top_p_softmax", 0.9, False).kept == [True, False], "no overflow"


@pytest.mark.parametrize("method", [name for name, entry in FILTERS.items() if not entry.may_be_empty])
@given(rollout=ROLLOUTS, keep=st.floats(0.01, 1), drop=st.booleans())
def test_only_filters_marked_for_it_may_keep_no_group(
    method: str, rollout: list[list[float]], keep: float, drop: bool
) -> None:
    assert any(keep_groups(rollout, method, keep, drop).kept)


def test_each_environment_may_be_left_without_groups() -> None:
    rollout = [*groups_of([5.0, 4.0]), FLAT, FLAT]
    found = keep_within(rollout, [0, 0, 1, 1], "top_p_linear", 0.5, True)
    assert found.kept == [True, False, False, False]
    assert keep_within([FLAT, FLAT], [0, 1], "top_p_linear", 0.5, True).kept == [False, False]


def test_the_loss_is_scaled_by_the_kept_share_or_its_root() -> None:
    assert {name: scale(0.25) for name, scale in LOSS_SCALES.items()} == {"none": 1.0, "linear": 0.25, "sqrt": 0.5}
    assert all(scale(1.0) == 1.0 for scale in LOSS_SCALES.values())
