"""Statistical tests against published values, brute force, and simulations without any true difference."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.studies import significance
from trainer.studies.significance import Estimate, Survival, holm, log_rank, success_estimate, welch


def test_figure_9_is_not_settled_by_three_seeds():
    starpo_s, starpo = (success_estimate(rates, 256) for rates in ([0.551, 0.508, 0.566], [0.398, 0.414, 0.523]))
    difference = welch(starpo_s, starpo)
    assert difference.value == pytest.approx(0.0967, abs=1e-4)
    assert difference.p == pytest.approx(0.117, abs=0.001)
    assert difference.low < 0 < difference.high


def test_students_table_is_met():
    """Critical values of Student's distribution: 4.303 with 2 degrees of freedom, 2.776 with 4."""
    for seeds, critical in ((3, 4.303), (5, 2.776)):
        values = np.linspace(-1, 1, seeds)
        values = values / values.std(ddof=1) * math.sqrt(seeds)
        change = significance.change(list(values + critical))
        assert change.p == pytest.approx(0.05, abs=1e-4)
        assert change.low == pytest.approx(0, abs=1e-3)


def test_welch_has_the_degrees_of_freedom_of_equal_arms_added_up():
    arm = Estimate(critical := 2.306, 0.5, 5)  # 8 degrees of freedom
    assert welch(arm, Estimate(0.0, 0.5, 5)).p == pytest.approx(0.05, abs=1e-4)
    assert welch(arm, Estimate(0.0, 0.5, 5), shift=-critical).p == 1


def test_seeds_that_agree_have_the_error_of_their_puzzles():
    estimate = success_estimate([0.5, 0.5, 0.5], 256)
    assert math.sqrt(estimate.square) == pytest.approx(math.sqrt(0.25 / (3 * 256)), rel=0.01)
    assert success_estimate([1.0, 1.0, 1.0], 10).square > 0
    with pytest.raises(ValueError, match="at least one seed"):
        success_estimate([], 10)
    with pytest.raises(ValueError, match="single seed"):
        welch(success_estimate([0.5], 10), success_estimate([0.5], 10))


def test_holm_corrects_step_by_step():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_lies_between_the_value_and_bonferroni(values):
    corrected = holm(values)
    for value, after in zip(values, corrected, strict=True):
        assert value <= after <= min(1.0, len(values) * value) or after == max(corrected)
    assert [corrected[i] for i in np.argsort(values, kind="stable")] == sorted(corrected)


SURVIVALS = st.lists(st.builds(Survival, st.integers(1, 6), st.booleans()), min_size=1, max_size=4)


@given(SURVIVALS, SURVIVALS)
def test_the_log_rank_test_equals_the_sum_over_risk_sets_and_all_assignments(arm, other):
    def excess(first, second):
        """Observed minus expected collapses of the first arm, summed over the times of collapses."""
        total = 0.0
        for time in {one.iterations for one in [*first, *second] if one.collapsed}:
            at_risk = [sum(one.iterations >= time for one in side) for side in (first, second)]
            fallen = [sum(one.collapsed and one.iterations == time for one in side) for side in (first, second)]
            total += fallen[0] - sum(fallen) * at_risk[0] / sum(at_risk)
        return total

    observed, p = log_rank(arm, other)
    assert observed == pytest.approx(excess(arm, other), abs=1e-9)
    everyone = [*arm, *other]
    extreme = []
    for chosen in combinations(range(len(everyone)), len(arm)):
        rest = [everyone[i] for i in range(len(everyone)) if i not in chosen]
        extreme.append(abs(excess([everyone[i] for i in chosen], rest)) >= abs(observed) - 1e-9)
    assert p == pytest.approx(np.mean(extreme))


def test_many_seeds_are_permuted_at_random():
    early, late = [Survival(10 + n, True) for n in range(15)], [Survival(40 + n, True) for n in range(15)]
    excess, p = log_rank(late, early)
    assert excess < 0
    assert p < 0.001
    assert log_rank(late, early) == (excess, p), "with a fixed seed"


def test_seeds_that_could_settle_a_claim():
    assert significance.seeds_for_log_rank() == 4  # 2 of 70 assignments; with three seeds 2 of 20
    assert significance.seeds_for_log_rank(0.05 / 9) == 6  # 2 of 924 assignments; with five seeds 2 of 252
    few, many = (significance.seeds_for_difference(d, 0.05, arms=2) for d in (0.2, 0.05))
    assert few is not None
    assert many is not None
    assert 3 <= few < many
    assert many == pytest.approx(17, abs=1), "Cohen's d = 1 needs 17 for each arm"
    assert significance.seeds_for_difference(0.0, 0.05, arms=2) is None
    assert significance.seeds_for_difference(1e-6, 0.5, arms=2) is None


def test_more_seeds_do_not_make_up_for_few_puzzles():
    alone = significance.seeds_for_difference(0.1, 0.05, arms=2)
    beside = significance.seeds_for_difference(0.1, 0.05, arms=2, shared=0.02**2)
    assert alone is not None
    assert beside is not None
    assert alone < beside
    assert significance.seeds_for_difference(0.1, 0.05, arms=2, shared=0.1**2) is None


@pytest.mark.parametrize(
    ("others", "level"),
    [([], 0.05), ([0.001, 0.002], 0.05), ([0.001, 0.9], 0.025), ([0.9, 0.8], 0.05 / 3), ([0.03], 0.025)],
)
def test_the_level_of_a_claim_follows_from_the_p_values_beside_it(others, level):
    assert significance.level_given(others) == pytest.approx(level)
    assert holm([level * 0.999, *others])[0] <= significance.LEVEL
    assert holm([level * 1.001, *others])[0] > significance.LEVEL


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("spread", [0.0, 0.03, 0.06, 0.12])
def test_equal_arms_are_rarely_called_different(seeds, spread):
    """2,000 pairs of arms with one true rate, seeds that differ by `spread`, 256 puzzles."""
    random = np.random.default_rng(seeds * 100 + int(100 * spread))
    called = 0
    for _ in range(2000):
        rates = np.clip(0.4 + spread * random.standard_normal((2, seeds)), 0, 1)
        arms = random.binomial(256, rates) / 256
        called += welch(*(success_estimate(list(arm), 256) for arm in arms)).p <= significance.LEVEL
    assert called / 2000 <= 0.065, "5 % and three standard errors of this simulation"


def played(random, seeds, count, preference, spread=0.03, puzzles=256):
    """Successes (pairs × arms × seeds × puzzles) of equal arms, each better at some puzzles that its seeds share."""
    shape = (count, 2, 1, puzzles)
    difficulty = 0.2 * random.standard_normal((count, 1, 1, puzzles))
    own = preference * random.standard_normal(shape)
    seed = spread * random.standard_normal((count, 2, seeds, 1))
    return random.uniform(size=(count, 2, seeds, puzzles)) < 0.4 + difficulty + own + seed


def share_called_different(pairs, shared_error):
    called = 0
    for pair in pairs:
        arms = [success_estimate(list(arm.mean(axis=1)), arm.shape[1]) for arm in pair]
        called += welch(*arms, shared=shared_error(*pair)).p <= significance.LEVEL
    return called / len(pairs)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("preference", [0.0, 0.15, 0.3])
def test_arms_that_prefer_other_puzzles_are_rarely_called_different(seeds, preference):
    pairs = played(np.random.default_rng(seeds + int(100 * preference)), seeds, 1000, preference)
    assert share_called_different(pairs, significance.shared_error) <= 0.071, "5 % and three standard errors"


def test_the_error_that_seeds_share_is_not_in_their_spread():
    pairs = played(np.random.default_rng(5), 12, 400, 0.3, spread=0.0)
    without = share_called_different(pairs, lambda arm, other: significance.NOTHING_SHARED)
    assert without > 0.1
    assert share_called_different(pairs, significance.shared_error) <= 0.083


def test_the_shared_error_is_that_of_the_preferences():
    pairs = played(np.random.default_rng(9), 4, 200, 0.2, spread=0.0)
    found = np.mean([significance.shared_error(*pair).square for pair in pairs])
    assert found == pytest.approx(2 * 0.2**2 / 256, rel=0.3), "a little less, as rates end at 0 and 1"


def test_arms_that_solve_the_same_puzzles_share_no_error():
    same = [[1.0, 0.0, 1.0, 0.0]] * 3
    assert significance.shared_error(same, same) == significance.Shared(0.0, 3)
    opposite = [[0.0, 1.0, 0.0, 1.0]] * 3
    assert significance.shared_error(same, opposite).square == pytest.approx(4 / 3 / 4)


@pytest.mark.parametrize("chance", [0.2, 0.5, 1.0])
def test_equal_collapses_are_rarely_called_later(chance):
    random = np.random.default_rng(int(10 * chance))

    def arm(seeds):
        return [
            Survival(int(random.integers(5, 40)), True) if random.uniform() < chance else Survival(40, False)
            for _ in range(seeds)
        ]

    for seeds in (3, 5):
        called = sum(log_rank(arm(seeds), arm(seeds))[1] <= significance.LEVEL for _ in range(600))
        assert called / 600 <= 0.077


def test_series_without_a_trend_are_rarely_called_falling():
    random = np.random.default_rng(1)
    called = 0
    for _ in range(2000):
        series = random.standard_normal((3, 40)).cumsum(axis=1)
        changes = series[:, -5:].mean(axis=1) - series[:, :5].mean(axis=1)
        called += significance.change(list(changes)).p <= significance.LEVEL
    assert called / 2000 <= 0.065


def test_an_arm_that_is_worse_by_the_margin_is_rarely_called_not_lower():
    random = np.random.default_rng(2)
    called = 0
    for _ in range(2000):
        rates = random.binomial(256, np.clip([[0.45] * 3, [0.5] * 3] + 0.03 * random.standard_normal((2, 3)), 0, 1))
        difference = welch(*(success_estimate(list(arm), 256) for arm in rates / 256), shift=0.05)
        called += difference.p <= significance.LEVEL and difference.value + 0.05 > 0
    assert called / 2000 <= 0.04, "one side of 5 %"


def test_a_contrast_over_strata_is_that_of_the_filter_on_sokoban():
    """Final success of figure 7 on Sokoban: filtered against unfiltered, PPO and GRPO."""
    ppo = ([[0.305, 0.363, 0.430], [0.434, 0.391, 0.387], [0.371, 0.336, 0.355]], [[0.465, 0.496, 0.473]])
    grpo = ([[0.320, 0.445, 0.375], [0.332, 0.395, 0.457], [0.258, 0.371, 0.348]], [[0.445, 0.441, 0.375]])
    found = significance.stratified([ppo, grpo])
    assert found.value == pytest.approx(-0.078, abs=5e-4)
    assert found.p == pytest.approx(0.0034, abs=2e-4)
    assert found.high < 0


def test_a_contrast_counts_every_assignment_within_the_strata():
    values, other = [0.9, 0.8], [0.1, 0.2, 0.3]
    everyone = [*values, *other]
    gaps = []
    for chosen in combinations(range(5), 2):
        first = [everyone[at] for at in chosen]
        second = [value for at, value in enumerate(everyone) if at not in chosen]
        gaps.append(np.mean(first) - np.mean(second))
    observed = np.mean(values) - np.mean(other)
    assert significance.stratified([([values], [other])]).p == np.mean(np.abs(gaps) >= observed - 1e-9)
    with pytest.raises(ValueError, match="both sides"):
        significance.stratified([([values], [])])
    with pytest.raises(ValueError, match="single seed"):
        significance.stratified([([[0.5]], [[0.4]])])
    many = significance.stratified([([list(np.linspace(0, 1, 15))], [list(np.linspace(0, 1, 15))])])
    assert many.p > 0.9, "drawn, for there are too many assignments"
