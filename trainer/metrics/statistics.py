"""Statistics over plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

Z_95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""


def wilson_interval(successes: float, trials: float) -> tuple[float, float]:
    """Compute Wilson's 95 % score interval of a success rate; (0, 1) for no trials.

    Counts may be fractional: the effective sample size of dependent trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials cannot be")
    if trials == 0:
        return 0.0, 1.0
    rate, weight = successes / trials, Z_95 * Z_95 / trials
    centre = (rate + weight / 2) / (1 + weight)
    half = Z_95 * math.sqrt(rate * (1 - rate) / trials + weight / (4 * trials)) / (1 + weight)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return low, high


def mean(values: Iterable[float]) -> float | None:
    """Return the arithmetic mean; None for no values."""
    numbers = list(values)
    return fmean(numbers) if numbers else None
