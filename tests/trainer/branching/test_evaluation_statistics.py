"""Intervals over the attempts of an evaluation: against formulas for special cases, and by simulated coverage."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.branching.evaluation_statistics import Continued, Measured, corrected_shares, mean_over_attempts
from trainer.metrics.success_difference import paired_difference, wilson

outcomes = st.lists(st.booleans(), min_size=1, max_size=5)
continued = st.lists(st.builds(Continued, st.integers(0, 4), outcomes, outcomes), min_size=1, max_size=10)


@given(continued)
def test_intervals_contain_their_values_and_exchanging_the_kinds_changes_the_sign_only(attempts):
    solved, without, apart = corrected_shares(attempts)
    assert apart is not None
    assert apart.value == pytest.approx(solved.share - without.share)
    assert -1 <= apart.low <= apart.value + 1e-12
    assert apart.value - 1e-12 <= apart.high <= 1
    assert apart.low < apart.high, "few attempts are no proof, even if all are equal"
    swapped = corrected_shares([Continued(one.puzzle, one.own, one.corrected) for one in attempts])[2]
    assert (swapped.low, swapped.high) == pytest.approx((-apart.high, -apart.low))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_one_continuation_of_each_kind_is_newcombes_paired_interval(pairs):
    _, _, apart = corrected_shares(Continued(n, [won], [own]) for n, (won, own) in enumerate(pairs))
    expected = paired_difference([own for _, own in pairs], [won for won, _ in pairs])
    assert (apart.low, apart.high) == pytest.approx((expected.low, expected.high))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=20), st.integers(2, 5))
def test_continuations_that_repeat_each_other_count_once(pairs, times):
    """As shares: the continuity correction for single outcomes does not apply to means."""
    repeated = [Continued(n, [won] * times, [own] * times) for n, (won, own) in enumerate(pairs)]
    solved, without, _ = corrected_shares(repeated)
    once = [wilson(sum(values), len(pairs)) for values in zip(*pairs, strict=True)]
    assert (solved.low, solved.high) == pytest.approx((once[0].low, once[0].high))
    assert (without.low, without.high) == pytest.approx((once[1].low, once[1].high))


def test_attempts_of_one_puzzle_are_one_cluster_and_failed_kinds_are_left_out():
    apart = [Continued(n, [True, False], [False, False]) for n in range(6)]
    together = [Continued(0, one.corrected, one.own) for one in apart]
    wide, narrow = corrected_shares(together)[0], corrected_shares(apart)[0]
    assert wide.high - wide.low > narrow.high - narrow.low
    assert corrected_shares([*apart, Continued(9, [], [True])]) == corrected_shares(apart)
    nothing, _, no_difference = corrected_shares([])
    assert (nothing.samples, nothing.low, nothing.high, no_difference) == (0, 0, 1, None)


def test_intervals_cover_the_truth_where_counting_every_continuation_does_not():
    """Attempts differ: some are won nearly always, others never, and the correction helps half of them."""
    random, covered, covered_share, covered_naively, rounds = Random(0), 0, 0, 0, 500
    true_share = 0.25
    true = 0.5 * (1 - true_share)
    for _ in range(rounds):
        attempts = []
        for puzzle in range(20):
            own = random.betavariate(0.3, 0.9)
            chance = own if random.random() < 0.5 else 1.0
            won, won_without = ([random.random() < each for _ in range(4)] for each in (chance, own))
            attempts.append(Continued(puzzle, won, won_without))
        _, without, apart = corrected_shares(attempts)
        covered += apart.low <= true <= apart.high
        covered_share += without.low <= true_share <= without.high
        naive = wilson(without.solved, without.samples)
        covered_naively += naive.low <= true_share <= naive.high
    assert covered >= 0.92 * rounds
    assert covered_share >= 0.92 * rounds
    assert covered_naively < 0.9 * rounds


values = st.lists(st.floats(0, 1), max_size=4)


@given(st.lists(st.builds(Measured, st.integers(0, 3), values), max_size=8))
def test_means_are_over_attempts_and_within_their_intervals(attempts):
    found = mean_over_attempts(attempts)
    means = [sum(one.values) / len(one.values) for one in attempts if one.values]
    if not means:
        assert found is None
    else:
        assert found.value == pytest.approx(sum(means) / len(means))
        assert 0 <= found.low <= found.value + 1e-9
        assert found.value - 1e-9 <= found.high <= 1


def test_equal_attempts_have_a_narrow_interval_and_different_ones_a_wide_one():
    equal = mean_over_attempts(Measured(n, [0.2, 0.4] * 5) for n in range(20))
    apart = mean_over_attempts(Measured(n, [0.6 * (n % 2)] * 10) for n in range(20))
    assert equal.value == pytest.approx(apart.value)
    assert equal.high - equal.low < apart.high - apart.low
