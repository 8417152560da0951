"""Groups of runs that repeat a configuration with other seeds, and runs worth comparing."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from trainer.config.removed import without_removed
from webapp.runs import summaries
from webapp.runs.models import Run

NOT_COMPARED = ("name", "seed", "trackers")
"""Settings that may differ between repetitions of a configuration."""
MAX_SUGGESTIONS = 4


def group_key(run: Run) -> str:
    """Return a key that is equal for runs that differ only in their seed, whose curves are averaged."""
    settings = {name: value for name, value in without_removed(run.config).items() if name not in NOT_COMPARED}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Suggestion:
    """Runs worth comparing, and the reason."""

    reason: str
    runs: list[Run]

    @property
    def slugs(self) -> str:
        return ",".join(run.slug for run in self.runs)


def suggestions(runs: Sequence[Run], most: int, of: Run | None = None) -> list[Suggestion]:
    """Suggest comparisons of these runs, newest first; if `of` is given, only with that run.

    Args:
        most: maximum number of runs in a comparison.
    """
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[group_key(run)].append(run)
    candidates = [
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
    candidates = candidates[: MAX_SUGGESTIONS - 2] + _spread_out(others)
    alike = (pair for pair in combinations(runs, 2) if pair[0].environment == pair[1].environment)
    if latest := next(alike, None):
        candidates.append(Suggestion(f"The latest two in {latest[0].environment}", [latest[1], latest[0]]))
    wanted = [suggestion for suggestion in candidates if of is None or of in suggestion.runs]
    distinct: dict[frozenset[int], Suggestion] = {}
    for suggestion in wanted:
        distinct.setdefault(frozenset(run.pk for run in suggestion.runs), suggestion)
    return list(distinct.values())[:MAX_SUGGESTIONS]


def _spread_out(pairs: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the newest pair of each environment."""
    first = {pair.runs[0].environment: pair for pair in reversed(pairs)}
    return sorted(first.values(), key=lambda pair: -max(run.pk for run in pair.runs))
