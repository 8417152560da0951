from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.algorithms.group_filter import FilterMethod, keep_groups, kept_count

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
