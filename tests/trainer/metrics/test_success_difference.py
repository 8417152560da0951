"""Interval of a difference of success rates: published values, symmetry, exact coverage."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from trainer.metrics.success_difference import correlation, difference, paired_difference, wilson

Table = tuple[int, int, int, int]
"""Puzzles solved both times, only after, only before, never."""


def outcomes(table: Table) -> tuple[list[bool], list[bool]]:
    both, gained, lost, never = table
    before = [True] * both + [False] * gained + [True] * lost + [False] * never
    return before, [True] * (both + gained) + [False] * (lost + never)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [((36, 12, 2, 0), 0.0569, 0.3404), ((54, 0, 0, 0), -0.0664, 0.0664)],
)
def test_paired_intervals_are_those_of_newcombe(table: Table, low: float, high: float) -> None:
    """Newcombe (1998), Statistics in Medicine 17, page 2643, method 10."""
    result = paired_difference(*outcomes(table))
    assert (round(result.low, 4), round(result.high, 4)) == (low, high)


def test_independent_intervals_are_those_of_newcombe() -> None:
    """56 of 70 against 48 of 80; Newcombe (1998), Statistics in Medicine 17, page 879, method 10."""
    result = difference(wilson(48, 80), wilson(56, 70))
    assert (round(result.value, 4), round(result.low, 4), round(result.high, 4)) == (0.2, 0.0524, 0.3339)


def test_exchanging_the_evaluations_changes_the_sign_only() -> None:
    before, after = outcomes((20, 9, 4, 17))
    forth, back = paired_difference(before, after), paired_difference(after, before)
    assert (forth.value, forth.low, forth.high) == pytest.approx((-back.value, -back.high, -back.low))


def test_pairs_that_agree_narrow_the_interval() -> None:
    alike = paired_difference(*outcomes((40, 10, 2, 48)))
    apart = difference(wilson(42, 100), wilson(50, 100))
    assert alike.value == pytest.approx(apart.value)
    assert alike.high - alike.low < apart.high - apart.low
    assert (alike.direction, apart.direction) == (1, 0)


@pytest.mark.parametrize("table", [(0, 0, 0, 5), (5, 0, 0, 0), (0, 5, 0, 0), (0, 0, 5, 0), (1, 0, 0, 0), (1, 1, 1, 1)])
def test_extreme_results_stay_within_bounds(table: Table) -> None:
    result = paired_difference(*outcomes(table))
    assert -1 <= result.low <= result.value <= result.high <= 1


def test_shares_of_several_plays_have_pearsons_coefficient() -> None:
    assert correlation([0.0, 0.5, 1.0], [0.25, 0.5, 0.75]) == pytest.approx(1.0)
    assert correlation([0.0, 1.0], [0.5, 0.5]) == 0.0


def test_an_evaluation_without_puzzles_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least one trial"):
        paired_difference([], [])


def tables(count: int) -> Iterator[Table]:
    for both in range(count + 1):
        for gained in range(count + 1 - both):
            for lost in range(count + 1 - both - gained):
                yield both, gained, lost, count - both - gained - lost


@pytest.mark.parametrize(
    "chances", [(0.3, 0.2, 0.1, 0.4), (0.25, 0.25, 0.25, 0.25), (0.5, 0.15, 0.05, 0.3), (0.05, 0.4, 0.05, 0.5)]
)
def test_the_exact_coverage_is_near_95_percent(chances: tuple[float, float, float, float]) -> None:
    """Sum of the probabilities of all results of 20 puzzles whose interval contains the true difference."""
    truth = chances[1] - chances[2]
    covered = 0.0
    for table in tables(20):
        result = paired_difference(*outcomes(table))
        if result.low <= truth <= result.high:
            ways = math.factorial(20) / math.prod(map(math.factorial, table))
            covered += ways * math.prod(chance**number for chance, number in zip(chances, table, strict=True))
    assert 0.94 < covered < 0.98
