"""Statistical tests of a study's claims over seeds. Pure functions; p values are two-sided throughout.

* Means of two arms: Welch's t test (B. L. Welch, 1947, Biometrika 34) with its degrees of freedom. For success, the
  puzzles are a second sample, the same for all seeds, like cases judged by several readers (D. D. Dorfman,
  K. S. Berbaum and C. E. Metz, 1992, Investigative Radiology 27).
* Changes within one arm: Student's t test over seeds.
* Times until a collapse: the exact permutation distribution of the log-rank statistic (R. Peto and J. Peto, 1972,
  Journal of the Royal Statistical Society A 135), censored where a run ended without one.
* A contrast of several arms: the exact permutation distribution of the mean difference over strata, within which seeds
  are assigned to the two sides (E. J. G. Pitman, 1937).
* Several claims at once: Holm's correction (S. Holm, 1979, Scandinavian Journal of Statistics 6).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEVEL = 0.05
POWER = 0.8
"""Power of the tests that `seeds_for_difference` plans."""
MIN_SEEDS = 3
MAX_SEEDS = 1000
"""Maximum number of planned seeds."""
_MAX_PERMUTATIONS = 200_000
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Estimate:
    """Mean of an arm over its seeds, and the squared standard error of that mean."""

    value: float
    square: float
    seeds: int


@dataclass(frozen=True)
class Difference:
    """A difference (or change) with its 95 % interval and two-sided p value for no difference."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Shared:
    """Squared error of a difference that is common to all seeds, and the degrees of freedom of its estimate."""

    square: float = 0.0
    freedom: int = 1


NOTHING_SHARED = Shared()


def shared_error(arm: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> Shared:
    """Estimate the contribution of the choice of puzzles to the error of a difference in success.

    All seeds play the same puzzles. If the two arms solve different puzzles, the seeds of an arm agree on that, so that
    the spread between seeds does not contain it. It is the variance between puzzles of the difference of the arms'
    means, without the part that chance within each seed explains.

    Args:
        arm: share of successes on each of at least two puzzles, for each of at least two seeds.
        other: the same puzzles in the same order.
    """
    sides = [np.asarray(side, dtype=float) for side in (arm, other)]
    puzzles = sides[0].shape[1]
    between = float(np.var(sides[0].mean(axis=0) - sides[1].mean(axis=0), ddof=1)) / puzzles
    within = math.fsum(map(_residual_square, sides))
    return Shared(max(0.0, between - within), puzzles - 1)


def _residual_square(rates: NDArray[np.float64]) -> float:
    """Return the squared error of an arm's mean (seeds × puzzles) that neither seed nor puzzle explains."""
    seeds, puzzles = rates.shape
    rest = rates - rates.mean(axis=0) - rates.mean(axis=1, keepdims=True) + rates.mean()
    return float(np.sum(rest**2) / ((seeds - 1) * (puzzles - 1)) / (seeds * puzzles))


def success_estimate(rates: Sequence[float], prompts: int) -> Estimate:
    """Estimate the mean success of an arm from the rate of each seed (0 to 1), each on `prompts` puzzles.

    The spread between seeds contains the effect of chance on each puzzle, but not the effect of the choice of puzzles,
    which are the same for all seeds: see `shared_error`. If the seeds happen to agree, at least binomial noise is
    assumed, with one success and one failure added (A. Agresti and B. Caffo, 2000), so that 0 % and 100 % are not
    certain either. Raises ValueError without a rate.
    """
    if not rates:
        raise ValueError("an estimate needs at least one seed")
    trials = prompts * len(rates)
    rate = (fmean(rates) * trials + 1) / (trials + 2)
    between = variance(rates) / len(rates) if len(rates) > 1 else 0.0
    return Estimate(fmean(rates), max(between, rate * (1 - rate) / (trials + 2)), len(rates))


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate the mean of a quantity with one value per seed. Raises ValueError without a value."""
    if not values:
        raise ValueError("an estimate needs at least one seed")
    return Estimate(fmean(values), variance(values) / len(values) if len(values) > 1 else 0.0, len(values))


def welch(arm: Estimate, other: Estimate, shift: float = 0.0, shared: Shared = NOTHING_SHARED) -> Difference:
    """Return the difference arm − other. Its p value tests a difference of −`shift`: non-inferiority by that margin.

    Args:
        shared: further error that is common to all seeds.

    Raises:
        ValueError: an arm has a single seed, so that its spread is unknown.
    """
    if min(arm.seeds, other.seeds) < 2:
        raise ValueError("the spread of a single seed is unknown")
    parts = [(arm.square, arm.seeds - 1), (other.square, other.seeds - 1), (shared.square, shared.freedom)]
    square = sum(part for part, _ in parts)
    freedom = square**2 / sum(part**2 / part_freedom for part, part_freedom in parts) if square else math.inf
    return _t_test(arm.value - other.value, math.sqrt(square), freedom, shift)


def change(values: Sequence[float]) -> Difference:
    """Test the mean of the seeds' changes against no change. Raises ValueError with fewer than two."""
    if len(values) < 2:
        raise ValueError("the spread of a single seed is unknown")
    mean = estimate(values)
    return _t_test(mean.value, math.sqrt(mean.square), len(values) - 1)


def _t_test(value: float, error: float, freedom: float, shift: float = 0.0) -> Difference:
    if not error:
        return Difference(value, value, value, 0.0 if value + shift else 1.0)
    margin = error * float(special.stdtrit(freedom, 1 - LEVEL / 2))
    p = 2 * float(special.stdtr(freedom, -abs(value + shift) / error))
    return Difference(value, value - margin, value + margin, p)


@dataclass(frozen=True)
class Survival:
    """Survival time of a seed: until its collapse, or without a collapse until the end of its run."""

    iterations: int
    collapsed: bool


def log_rank(arm: Sequence[Survival], other: Sequence[Survival]) -> tuple[float, float]:
    """Return the arm's excess collapses, and the exact p value under all assignments of the seeds to the two arms.

    A negative excess means later or fewer collapses than the other arm's. With more than 200,000 assignments,
    20,000 are drawn with a fixed seed. Raises ValueError without a seed in each.
    """
    if not arm or not other:
        raise ValueError("each arm needs at least one seed")
    everyone = [*arm, *other]
    scores = np.array(_log_rank_scores(everyone))
    observed = float(scores[: len(arm)].sum())
    if math.comb(len(everyone), len(arm)) <= _MAX_PERMUTATIONS:
        chosen = np.array(list(combinations(range(len(everyone)), len(arm))))
        sums = scores[chosen].sum(axis=1)
        extreme = float(np.mean(np.abs(sums) >= abs(observed) - 1e-9))
    else:
        generator = np.random.default_rng(0)
        shuffled = generator.permuted(np.tile(scores, (_MAX_PERMUTATIONS // 10, 1)), axis=1)
        sums = shuffled[:, : len(arm)].sum(axis=1)
        extreme = float((np.sum(np.abs(sums) >= abs(observed) - 1e-9) + 1) / (len(sums) + 1))
    return observed, extreme


def _log_rank_scores(everyone: Sequence[Survival]) -> list[float]:
    """Return collapse (0 or 1) minus the pooled cumulative hazard up to the seed's time; they sum to 0."""
    hazards: dict[int, float] = {}
    total = 0.0
    for time in sorted({seed.iterations for seed in everyone}):
        at_risk = sum(seed.iterations >= time for seed in everyone)
        total += sum(seed.collapsed and seed.iterations == time for seed in everyone) / at_risk
        hazards[time] = total
    return [seed.collapsed - hazards[seed.iterations] for seed in everyone]


def stratified(strata: Sequence[tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]]) -> Difference:
    """Return the mean over strata of the difference between two sides, each of one or several arms.

    Each value of a stratum may lie on either side in the permutations of its p value: exact up to 200,000 assignments,
    else of 20,000 with a fixed seed. The interval is Student's, from the spread of seeds within the arms.

    Args:
        strata: arms and the arms that they are compared with, each with one value per seed.

    Raises:
        ValueError: a stratum lacks a side, or no arm has two seeds.
    """
    if not strata or not all(map(any, itertools.chain(*strata))):
        raise ValueError("each stratum needs a seed on both sides")
    observed, square, sums, freedom = 0.0, 0.0, 0.0, 0
    shuffles = []
    for arms, others in strata:
        first, second = (np.concatenate([np.asarray(arm, dtype=float) for arm in side]) for side in (arms, others))
        observed += float(first.mean() - second.mean()) / len(strata)
        square += (1 / len(first) + 1 / len(second)) / len(strata) ** 2
        for arm in (*arms, *others):
            sums += float(np.sum((np.asarray(arm) - np.mean(arm)) ** 2))
            freedom += len(arm) - 1
        shuffles.append((np.concatenate([first, second]), len(first)))
    if not freedom:
        raise ValueError("the spread of a single seed is unknown")
    result = _t_test(observed, math.sqrt(square * sums / freedom), freedom)
    return replace(result, p=_permuted(observed, shuffles))


def _permuted(observed: float, strata: Sequence[tuple[NDArray[np.float64], int]]) -> float:
    """Return the p value of a mean difference over strata, each its values and the number of them on the first side."""

    def differences(first_sums: NDArray[np.float64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        second = (values.sum() - first_sums) / (len(values) - count)
        gaps: NDArray[np.float64] = (first_sums / count - second) / len(strata)
        return gaps

    if math.prod(math.comb(len(values), count) for values, count in strata) <= _MAX_PERMUTATIONS:
        total = np.zeros(1)
        for values, count in strata:
            chosen = np.array(list(combinations(range(len(values)), count)))
            total = np.add.outer(total, differences(values[chosen].sum(axis=1), values, count)).ravel()
        return float(np.mean(np.abs(total) >= abs(observed) - _ROUNDING))
    generator = np.random.default_rng(0)
    total = np.zeros(_MAX_PERMUTATIONS // 10)
    for values, count in strata:
        shuffled = generator.permuted(np.tile(values, (len(total), 1)), axis=1)
        total += differences(shuffled[:, :count].sum(axis=1), values, count)
    return float((np.sum(np.abs(total) >= abs(observed) - _ROUNDING) + 1) / (len(total) + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values for their number, in the same order; a claim is accepted if its value is then at most LEVEL."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        corrected[at] = largest
    return corrected


def level_given(others: Sequence[float]) -> float:
    """Return the largest p value with which a claim is accepted after Holm's correction, given the other p values."""
    claims = len(others) + 1
    levels = (LEVEL / remaining for remaining in range(claims, 0, -1))
    return max(level for level in levels if holm([level, *others])[0] <= LEVEL + _ROUNDING)


def seeds_for_difference(
    value: float, spread: float, *, arms: int, level: float = LEVEL, shared: float = 0.0
) -> int | None:
    """Return the seeds per arm that detect a true difference of that size with a power of 80 %; None above 1,000.

    Args:
        spread: standard deviation between seeds of one arm.
        arms: 2 for a difference, 1 for a change.
        level: the largest p value with which the claim is accepted.
        shared: squared error that no number of seeds reduces.
    """

    def power(seeds: int) -> float:
        error = math.sqrt(spread**2 * arms / seeds + shared)
        if not error:
            return 1.0
        freedom = arms * (seeds - 1)
        critical = special.stdtrit(freedom, 1 - level / 2)
        return 1 - float(special.nctdtr(freedom, abs(value) / error, critical))

    if not value:
        return None
    low, high = MIN_SEEDS, MIN_SEEDS
    while power(high) < POWER:
        low, high = high + 1, 2 * high
        if low > MAX_SEEDS:
            return None
    while low < high:
        middle = (low + high) // 2
        if power(middle) < POWER:
            low = middle + 1
        else:
            high = middle
    return low if low <= MAX_SEEDS else None


def seeds_for_log_rank(level: float = LEVEL) -> int:
    """Return the fewest seeds per arm with which the exact test can reach that level, if only one arm collapses."""
    seeds = MIN_SEEDS
    while 2 / math.comb(2 * seeds, seeds) > level:
        seeds += 1
    return seeds
