"""Groups of runs that repeat one configuration with other seeds, and runs worth comparing."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from webapp.runs import summaries
from webapp.runs.models import Run

NOT_COMPARED = ("name", "seed", "trackers")
"""Settings in which repetitions of a configuration may differ."""
MAX_SUGGESTIONS = 4


def group_key(run: Run) -> str:
    """Runs with the same key are averaged: those whose configurations differ in their seed only."""
    settings = {name: value for name, value in run.config.items() if name not in NOT_COMPARED}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Suggestion:
    """Runs worth comparing, and why."""

    reason: str
    runs: list[Run]

    @property
    def slugs(self) -> str:
        return ",".join(run.slug for run in self.runs)


def suggestions(runs: Sequence[Run], most: int, of: Run | None = None) -> list[Suggestion]:
    """Runs to compare out of these, newest first; only with the run `of` where it is given.

    Args:
        most: number of runs that a comparison takes.
    """
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[group_key(run)].append(run)
    found = [
        Suggestion("Same configuration, other seeds: how much is luck?", sorted(group[:most], key=lambda run: run.pk))
        for group in groups.values()
        if len(group) > 1
    ]
    algorithms = {run.pk: summaries.algorithm_text(run.config) for run in runs}
    others = [
        Suggestion(f"Same environment, {run.environment}, other algorithm", [earlier, run])
        for run, earlier in combinations(runs, 2)
        if run.environment == earlier.environment and algorithms[run.pk] != algorithms[earlier.pk]
    ]
    found = found[: MAX_SUGGESTIONS - 2] + _spread_out(others)
    alike = (pair for pair in combinations(runs, 2) if pair[0].environment == pair[1].environment)
    if latest := next(alike, None):
        found.append(Suggestion(f"The latest two in {latest[0].environment}", [latest[1], latest[0]]))
    wanted = [each for each in found if of is None or of in each.runs]
    distinct: dict[frozenset[int], Suggestion] = {}
    for each in wanted:
        distinct.setdefault(frozenset(run.pk for run in each.runs), each)
    return list(distinct.values())[:MAX_SUGGESTIONS]


def _spread_out(pairs: Sequence[Suggestion]) -> list[Suggestion]:
    """The newest pair of each environment."""
    first = {pair.runs[0].environment: pair for pair in reversed(pairs)}
    return sorted(first.values(), key=lambda pair: -max(run.pk for run in pair.runs))
