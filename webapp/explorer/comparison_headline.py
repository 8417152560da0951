"""The first sentence of a comparison: the better of two runs, and the difference."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.metrics.success_difference import difference
from webapp.core import formatting
from webapp.explorer.compare import Side, unequal_text
from webapp.explorer.measured_rate import measured_rate


def headline(sides: Sequence[Side]) -> str:
    """Return the comparison of two evaluated runs, with the 95% interval of the difference in success.

    For runs in different environments, say that their success cannot be compared; empty if there is nothing to compare.
    """
    environments = dict.fromkeys(side.run.environment for side in sides)
    if len(environments) > 1:
        return f"Different environments ({', '.join(environments)}): success in one says nothing about the others."
    results = [side.result for side in sides if side.result]
    if len(sides) != 2 or len(results) != 2 or results[0].suite != results[1].suite or unequal_text(sides):
        return ""
    change = difference(measured_rate(results[0]), measured_rate(results[1]))
    low, high = formatting.points(change.low), formatting.points(change.high)
    interval = f"{formatting.points(change.value)} points for B, 95% interval {low} to {high}"
    better = {1: "B is better", -1: "A is better", 0: "No clear difference"}[change.direction]
    return f"{better}: {interval}."
