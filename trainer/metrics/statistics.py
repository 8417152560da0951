"""Statistics over plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean


def mean(values: Iterable[float]) -> float | None:
    """Return the arithmetic mean; None for no values."""
    numbers = list(values)
    return fmean(numbers) if numbers else None
