"""The suite by which a run is judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from webapp.runs.models import Evaluation


def main_suite(evaluations: Iterable[Evaluation], environment: str) -> str:
    """Return the suite of the run's own environment, else the one evaluated most often; "" without an evaluation."""
    counts: dict[str, int] = defaultdict(int)
    for one in evaluations:
        counts[one.suite] += 1
    return min(counts, key=lambda suite: (suite != environment, -counts[suite], suite), default="")
