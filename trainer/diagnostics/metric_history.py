"""Running statistics of one metric for the Echo Trap detector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

SLOW = 5  # span of the slow average and of the kept surprises, in windows


class MetricHistory:
    """A metric over time: a fast and a slow average, the last values and their surprises.

    `best` and `lowest` are the highest and lowest fast average of a whole window so far; −∞ and ∞ before the first one.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.count = 0
        self.averages = [[0.0, 0.0], [0.0, 0.0]]  # fast, slow: weighted sum and sum of weights, unbiased from the start
        self.values: list[float] = []
        self.surprises: list[float] = []
        self.slows: list[float] = []
        self.best, self.lowest = -math.inf, math.inf

    def add(self, value: float) -> None:
        """Add the next value."""
        memory = SLOW * self.window
        if self.count:
            self.surprises = [*self.surprises, value - self.fast][-memory:]
        self.values = [*self.values, value][-memory:]
        self.count += 1
        for average, span in zip(self.averages, (self.window, memory), strict=True):
            keep = 1 - 2 / (span + 1)
            average[0], average[1] = keep * average[0] + value, keep * average[1] + 1
        self.slows = [*self.slows, self.slow][-self.window :]
        if self.count >= self.window:
            self.best, self.lowest = max(self.best, self.fast), min(self.lowest, self.fast)

    @property
    def fast(self) -> float:
        return self.averages[0][0] / self.averages[0][1] if self.count else 0.0

    @property
    def slow(self) -> float:
        return self.averages[1][0] / self.averages[1][1] if self.count else 0.0

    @property
    def earlier(self) -> float:
        """The slow average a window ago, before the change that the fast average shows now."""
        return self.slows[0] if self.slows else 0.0

    @property
    def noise(self) -> float:
        """Robust deviation of a single iteration from the fast average."""
        return deviation(self.surprises)

    @property
    def on_course(self) -> bool:
        """True if there are enough values to estimate a course."""
        return len(self.surprises) - self._half >= self.window

    @property
    def _half(self) -> int:
        return max(2, self.window // 2)

    def drift(self) -> float:
        """Return the distance of the last half window from the earlier course, in robust deviations."""
        if not self.on_course:
            return 0.0
        earlier, latest = self.surprises[: -self._half], self.surprises[-self._half :]
        return (fmean(latest) - median(earlier)) / deviation(earlier)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON-serialisable data."""
        return {
            "count": self.count,
            "averages": [list(average) for average in self.averages],
            "values": list(self.values),
            "surprises": list(self.surprises),
            "slows": list(self.slows),
            "best": self.best if math.isfinite(self.best) else None,
            "lowest": self.lowest if math.isfinite(self.lowest) else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.count, self.averages = state["count"], [list(average) for average in state["averages"]]
        self.values, self.surprises = list(state["values"]), list(state["surprises"])
        self.slows = list(state["slows"])
        # a state saved before `best` and `lowest` existed: use the remembered values
        best = state["best"] if "best" in state else max(self.slows, default=None)
        lowest = state["lowest"] if "lowest" in state else min(self.slows, default=None)
        self.best = -math.inf if best is None else best
        self.lowest = math.inf if lowest is None else lowest


def deviation(values: Sequence[float]) -> float:
    """Return the robust standard deviation: 1.4826 × the median distance from the median, never 0."""
    if not values:
        return 1e-9
    middle = median(values)
    return max(1.4826 * median(abs(value - middle) for value in values), 1e-9)
