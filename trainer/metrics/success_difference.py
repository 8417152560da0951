"""Interval of the difference between two success rates, on the same puzzles or on different ones. Pure functions.

R. G. Newcombe (1998), Statistics in Medicine 17: method 10 for paired proportions (pages 2635 to 2650) and method 10
for independent ones (pages 873 to 890). Both combine the Wilson intervals of the two rates; the paired one also uses
their correlation. G. Y. Zou and A. Donner (2008) show that the same formula holds for intervals of other kinds, such as
those of puzzles that were played several times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.metrics.statistics import wilson_interval


@dataclass(frozen=True)
class Rate:
    """A success rate with its 95% interval, all 0 to 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SuccessDifference:
    """A difference of success rates with its 95% interval, all −1 to 1."""

    value: float
    low: float
    high: float

    @property
    def direction(self) -> int:
        """1 for a gain and −1 for a loss that the interval confirms; 0 if it includes no difference."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def wilson(successes: float, trials: int) -> Rate:
    """Return the rate with its Wilson interval. Raises ValueError without a trial."""
    if trials < 1:
        raise ValueError("a rate needs at least one trial")
    return Rate(successes / trials, *wilson_interval(successes, trials))


def correlation(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the correlation of the puzzles' success in two evaluations, −1 to 1; 0 if one evaluation is constant.

    Puzzles played once have 0 or 1: then it is the phi coefficient with Newcombe's continuity correction. Shares of
    several plays give Pearson's coefficient. Raises ValueError if the sequences differ in length.
    """
    count = len(before)
    centre = [sum(values) / max(1, count) for values in (before, after)]
    product = sum((x - centre[0]) * (y - centre[1]) for x, y in zip(before, after, strict=True))
    scale = math.sqrt(sum((x - centre[0]) ** 2 for x in before) * sum((y - centre[1]) ** 2 for y in after))
    if scale < 1e-12:
        return 0.0
    if product > 0 and all(value in (0, 1) for value in (*before, *after)):
        product = max(0.0, product - 0.5)  # (ad − bc − n/2) ÷ n in the notation of a 2 × 2 table
    return max(-1.0, min(1.0, product / scale))


def difference(before: Rate, after: Rate, correlation: float = 0.0) -> SuccessDifference:
    """Return `after` − `before` with Newcombe's hybrid score interval. `correlation` is 0 for different puzzles."""
    value = after.value - before.value
    below = _distance(after.value - after.low, before.high - before.value, correlation)
    above = _distance(after.high - after.value, before.value - before.low, correlation)
    return SuccessDifference(value, max(-1.0, value - below), min(1.0, value + above))


def _distance(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(0.0, first * first - 2 * correlation * first * second + second * second))


def paired_difference(before: Sequence[bool], after: Sequence[bool]) -> SuccessDifference:
    """Return the difference on puzzles that both evaluations played once. Raises ValueError without a puzzle."""
    return difference(
        wilson(sum(before), len(before)), wilson(sum(after), len(after)), correlation([*before], [*after])
    )
