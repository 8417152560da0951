"""Folded rows of the list of runs: a row for a group of runs, such as a study, or for the seeds of a configuration."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from statistics import fmean, stdev

from django.db.models import Case, CharField, F, Func, Q, QuerySet, Value, When
from django.db.models.functions import Cast, Concat

from trainer.metrics.charts import spark
from webapp.core import formatting
from webapp.runs import summaries
from webapp.runs.condition import CONDITION_LABELS
from webapp.runs.listing.evaluation_curves import LEAST_SPAN, EvaluationCurve, evaluation_curves
from webapp.runs.models import Run

MAX_LINES = 10
"""Curves in the sparkline of a folded row."""
_SEED = re.compile(r",? seed \d+$")
_CONFIGURATION = Func(
    F("config"), template="md5((%(expressions)s - ARRAY['name', 'seed', 'trackers'])::text)", output_field=CharField()
)
"""Equal for runs that repeat a configuration with other seeds, as `group_key` of webapp/explorer/run_groups.py."""


@dataclass(frozen=True)
class FoldedRuns:
    """Primary keys of the runs in one row, in the order of the list, each with the digest of its configuration.

    Attributes:
        key: name of the row in addresses.
        group: name of the runs' group; empty for repetitions of a configuration, and for a row of one run.
    """

    key: str
    group: str
    configurations: dict[int, str]

    @property
    def several(self) -> bool:
        return len(self.configurations) > 1


def fold(runs: QuerySet[Run], *, by_group: bool) -> list[FoldedRuns]:
    """Return the rows of the runs, each at the position of its first run. One query.

    Args:
        by_group: runs of one group are a row; otherwise only repetitions of a configuration are.
    """
    team = Cast("team_id", CharField())
    recorded = When(config__has_key="recorded", then=Concat(Value("run/"), Cast("pk", CharField())))
    grouped = When(~Q(group=""), then=Concat(Value("group/"), team, Value("/"), "group"))
    key = Case(
        *([grouped] if by_group else []),
        recorded,  # settings of another trainer may be missing, and equal for that reason
        default=Concat(Value("configuration/"), team, Value("/"), _CONFIGURATION),
        output_field=CharField(),
    )
    rows: dict[str, FoldedRuns] = {}
    for pk, group, configuration, name in runs.values_list("pk", "group", _CONFIGURATION, key):
        if name not in rows:
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            rows[name] = FoldedRuns(digest, group if name.startswith("group/") else "", {})
        rows[name].configurations[pk] = configuration
    return list(rows.values())


@dataclass(frozen=True)
class FoldResult:
    """Success of the runs of one configuration in the suite of their environment.

    Attributes:
        deviation: sample standard deviation over the runs; None with a single one.
        of: number of configurations out of which this one is the best.
    """

    mean: float
    deviation: float | None
    runs: int
    of: int
    curves: list[EvaluationCurve]

    @property
    def text(self) -> str:
        """E.g. “Mean ± standard deviation over 3 runs, best of 2 configurations”."""
        over = f"Mean ± standard deviation over {self.runs} runs" if self.deviation is not None else "One run"
        return f"{over}, best of {self.of} configurations" if self.of > 1 else over

    @cached_property
    def lines(self) -> list[str]:
        """Points of a polyline of each run in a box of 100 × 30."""
        values = [value for curve in self.curves for value in curve.values]
        missing = max(0.0, LEAST_SPAN - (max(values) - min(values))) / 2
        span = min(values) - missing, max(values) + missing
        return [spark(curve.values, span=span) for curve in self.curves[:MAX_LINES] if len(curve.values) > 1]


@dataclass(frozen=True)
class FoldRow:
    """A row for several runs. `rows` are the runs' own rows where it is unfolded."""

    key: str
    group: str
    runs: Sequence[Run]
    configurations: int
    result: FoldResult | None
    rows: Sequence[summaries.RunSummary]

    @property
    def title(self) -> str:
        """Name of the group, or the titles of the repetitions without their seeds: two, or the first one's only."""
        if self.group:
            return self.group
        first, *others = dict.fromkeys(_SEED.sub("", run.title) for run in self.runs)
        return f"{first}, {others[0]}" if len(others) == 1 else f"{first} and {len(others)} more" if others else first

    @property
    def team(self) -> str:
        return self.runs[0].team.slug

    @property
    def slugs(self) -> str:
        return ",".join(run.slug for run in self.runs)

    @property
    def count_text(self) -> str:
        """E.g. “6 runs of 2 configurations”."""
        of = f" of {self.configurations:,} configurations" if self.configurations > 1 else ""
        return f"{len(self.runs):,} runs{of}"

    @property
    def states(self) -> list[tuple[str, int]]:
        """Number of runs in each state, the commonest first."""
        return Counter(run.shown_state for run in self.runs).most_common()

    @property
    def conditions(self) -> list[tuple[str, str, int]]:
        """(state, label, number of runs) of each trouble that the detectors found."""
        troubles = Counter(run.condition.state for run in self.runs if run.condition)
        return [(state, CONDITION_LABELS[state], count) for state, count in troubles.most_common()]

    @property
    def active(self) -> bool:
        return any(run.state in (Run.State.QUEUED, *Run.HELD) for run in self.runs)

    @property
    def created_at(self) -> datetime:
        return max(run.created_at for run in self.runs)

    @property
    def age(self) -> str:
        return summaries.age(self.created_at)

    @property
    def authors(self) -> str:
        names = {run.author.get_username() for run in self.runs if run.author}
        return names.pop() if len(names) == 1 else formatting.plural(len(names), "author") if names else "–"


def fold_rows(folded: Sequence[FoldedRuns], unfolded: Sequence[str]) -> list[FoldRow | summaries.RunSummary]:
    """Return the rows to show: folded rows, and single runs. The number of queries is constant.

    Args:
        unfolded: keys of the rows whose runs are shown below them.
    """
    shown = [pk for row in folded if not row.several or row.key in unfolded for pk in row.configurations]
    inside = [pk for row in folded if row.several for pk in row.configurations]
    everyone = Run.objects.with_alarm().select_related("author", "team").defer("log_tail", "summary", "notes")
    runs = {run.pk: run for run in everyone.filter(pk__in={*shown, *inside})}
    cards = {card.run.pk: card for card in summaries.cards([runs[pk] for pk in shown if pk in runs])}
    curves = evaluation_curves({pk: runs[pk].environment for pk in inside if pk in runs}) if inside else {}
    rows: list[FoldRow | summaries.RunSummary] = []
    for row in folded:
        members = [runs[pk] for pk in row.configurations if pk in runs]
        if not row.several:
            rows += [cards[run.pk] for run in members]
        elif members:
            below = [cards[run.pk] for run in members] if row.key in unfolded else []
            kinds = len(set(row.configurations.values()))
            rows.append(FoldRow(row.key, row.group, members, kinds, _result(row, members, curves), below))
    return rows


def _result(row: FoldedRuns, runs: Sequence[Run], curves: Mapping[int, EvaluationCurve]) -> FoldResult | None:
    """Return the best configuration's success; None before a result, and if the runs play different environments."""
    if len({run.environment for run in runs}) > 1:
        return None
    by_configuration: dict[str, list[EvaluationCurve]] = defaultdict(list)
    for run in runs:
        curve = curves.get(run.pk)
        if curve and curve.suite == run.environment and (curve.iteration > 0 or not run.iterations):
            by_configuration[row.configurations[run.pk]].append(curve)
    if not by_configuration:
        return None
    best = max(by_configuration.values(), key=lambda curves: fmean(curve.success for curve in curves))
    values = [curve.success for curve in best]
    deviation = stdev(values) if len(values) > 1 else None
    return FoldResult(fmean(values), deviation, len(values), len(set(row.configurations.values())), best)
