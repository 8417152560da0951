"""Statistics over plain numbers that several metrics share."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean


def mean(values: Iterable[float]) -> float | None:
    """Arithmetic mean; None of nothing."""
    known = list(values)
    return fmean(known) if known else None
