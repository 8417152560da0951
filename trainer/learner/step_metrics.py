"""Metrics collected over the optimiser steps of an update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

COUNTS = ("update/steps", "update/skipped")


class StepMetrics:
    """Means over optimiser steps, and values measured once."""

    def __init__(self) -> None:
        self._lists: dict[str, list[float]] = defaultdict(list)
        self._once: dict[str, float] = {}

    def add(self, step: Mapping[str, float]) -> None:
        """Add the metrics of one optimiser step."""
        for name, value in step.items():
            self._lists[name].append(value)

    def set(self, name: str, value: float | None) -> None:
        """Set a metric measured once per update; None is ignored."""
        if value is not None:
            self._once[name] = value

    def update(self, values: Mapping[str, float]) -> None:
        """Set several metrics."""
        for name, value in values.items():
            self.set(name, value)

    def result(self) -> dict[str, float]:
        """Return the means (for counts, the sums) of all finite values."""
        means = {
            name: sum(values) if name in COUNTS else sum(values) / len(values) for name, values in self._lists.items()
        }
        return {name: value for name, value in (means | self._once).items() if abs(value) < float("inf")}
