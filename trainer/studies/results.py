"""Results of cells from their journals: curves, final success, collapses, costs; and tests of the paper's findings.

A collapse is defined by success alone, equally for all arms: the mean of five iterations falls below half of its best
and stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, variance

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.studies.catalogue import Finding, Study
from trainer.studies.grid import Cell, read_cost

_WINDOW = 5
_MIN_BEST = 0.1  # best success from which a fall counts as a collapse
_SIGNIFICANT = 2.0  # standard errors


@dataclass
class EvaluationResult:
    """One evaluation of a suite: success on so many prompts with its 95 % interval."""

    iteration: int
    prompts: int
    success: float
    low: float
    high: float


@dataclass
class Outcome:
    """Results of one cell. Curves are by metric name: iteration → value."""

    environment: str
    arm: str
    seed: int
    iterations: int = 0
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    evaluations: dict[str, list[EvaluationResult]] = field(default_factory=dict)
    suite: str = ""
    alarms: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: float = 0.0

    def final(self, suite: str = "") -> EvaluationResult | None:
        """The last evaluation of a suite (default: the training environment)."""
        results = self.evaluations.get(suite or self.suite)
        return results[-1] if results else None

    def last(self, name: str) -> float | None:
        """Mean of a metric over the last iterations."""
        values = list(self.curves.get(name, {}).values())[-_WINDOW:]
        return fmean(values) if values else None

    @property
    def update_seconds(self) -> float:
        return sum(self.curves.get("time/update", {}).values())

    @property
    def collapse(self) -> int | None:
        """The iteration at which success collapsed, or None."""
        return collapse([value for _, value in sorted(self.curves.get("success/rate", {}).items())])

    @property
    def trapped(self) -> int | None:
        """The iteration at which the Echo Trap detector first reported a collapse."""
        return next((iteration for iteration, state in self.alarms if state == "trapped"), None)


def collapse(success: Sequence[float]) -> int | None:
    """1-based iteration from which the mean of five stays below half of its best; None if it never does."""
    smooth = [fmean(success[max(0, at + 1 - _WINDOW) : at + 1]) for at in range(len(success))]
    best, fallen = 0.0, None
    for at, value in enumerate(smooth):
        best = max(best, value)
        if best >= _MIN_BEST and value < best / 2:
            fallen = fallen or at + 1
        else:
            fallen = None
    return fallen if fallen is not None and len(success) - fallen >= _WINDOW - 1 else None


def read(cell: Cell) -> Outcome:
    """Read a cell's journal; of an iteration played twice, after a resume or a rewind, the last one counts."""
    outcome = Outcome(cell.environment, cell.arm.name, cell.seed, suite=cell.config.environment.name)
    for event in reader.read(cell.folder / JOURNAL_FILE):
        match event:
            case events.RunStarted():
                _drop_superseded(outcome, event)
            case events.Metrics():
                outcome.iterations = max(outcome.iterations, event.iteration)
                for name, value in event.values.items():
                    outcome.curves.setdefault(name, {})[event.iteration] = value
            case events.Evaluation():
                evaluation = EvaluationResult(
                    event.iteration, event.prompts, event.success, event.success_low, event.success_high
                )
                outcome.evaluations.setdefault(event.suite, []).append(evaluation)
            case events.Alarm():
                outcome.alarms.append((event.iteration, event.state))
    cost = read_cost(cell.folder)
    outcome.seconds, outcome.megabytes = cost["seconds"], cost["megabytes"]
    return outcome


def _drop_superseded(outcome: Outcome, start: events.RunStarted) -> None:
    """Drop the results that the new attempt supersedes."""
    for curve in outcome.curves.values():
        for iteration in [i for i in curve if i > start.from_iteration]:
            del curve[iteration]
    for suite, evaluations in outcome.evaluations.items():
        outcome.evaluations[suite] = [
            evaluation for evaluation in evaluations if evaluation.iteration <= start.evaluated_iteration
        ]
    outcome.alarms = [(iteration, state) for iteration, state in outcome.alarms if iteration <= start.from_iteration]


@dataclass(frozen=True)
class FindingVerdict:
    """Verdict on a finding in one environment, and the figures behind it."""

    finding: str
    environment: str
    word: str
    figures: str


def verdicts(study: Study, outcomes: Iterable[Outcome]) -> list[FindingVerdict]:
    """Test every finding of the study in every environment."""
    results = list(outcomes)
    tested = []
    for finding in study.findings:
        for environment in study.environments:
            arm = [o for o in results if (o.environment, o.arm) == (environment, finding.arm)]
            other = [o for o in results if (o.environment, o.arm) == (environment, finding.other)]
            word, figures = _CLAIMS[finding.claim](finding, arm, other)
            tested.append(FindingVerdict(finding.words, environment, word, figures))
    return tested


Judgement = tuple[str, str]


def _higher(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
    difference, error = _difference(finding, arm, other)
    if difference is None:
        return "inconclusive", "no evaluations"
    figures = f"{100 * difference:+.1f} points, standard error {100 * error:.1f}"
    if difference > _SIGNIFICANT * error:
        return "yes", figures
    return ("the opposite" if difference < -_SIGNIFICANT * error else "no difference seen"), figures


def _not_lower(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
    word, figures = _higher(finding, arm, other)
    return {"yes": "yes", "no difference seen": "yes, within the error", "the opposite": "no"}.get(word, word), figures


def _difference(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> tuple[float | None, float]:
    """Difference of mean final success, and its standard error: by seeds or by prompts, whichever is larger."""
    pairs = [[evaluation for o in side if (evaluation := o.final(finding.suite))] for side in (arm, other)]
    if not all(pairs):
        return None, 0.0
    squares = 0.0
    for evaluations in pairs:
        rates = [evaluation.success for evaluation in evaluations]
        rate, trials = fmean(rates), sum(evaluation.prompts for evaluation in evaluations)
        between = variance(rates) / len(rates) if len(rates) > 1 else 0.0
        squares += max(between, rate * (1 - rate) / trials)
    first, second = (fmean(evaluation.success for evaluation in evaluations) for evaluations in pairs)
    return first - second, math.sqrt(squares)


def _collapses_later(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
    if not arm or not other:
        return "inconclusive", "no runs"
    ours, theirs = ([o.collapse for o in side] for side in (arm, other))
    figures = f"{_collapses(ours)} against {_collapses(theirs)}"
    if not any(theirs) and not any(ours):
        return "inconclusive", f"no run of either collapsed within {max(o.iterations for o in arm)} iterations"
    last = max(o.iterations for o in [*arm, *other]) + 1
    first, second = (fmean(value or last for value in side) for side in (ours, theirs))
    return ("yes" if first > second else "the opposite" if first < second else "no difference seen"), figures


def _collapses(iterations: list[int | None]) -> str:
    listed = ", ".join(str(value) for value in iterations if value)
    return f"{sum(map(bool, iterations))} of {len(iterations)} collapsed{f' (iteration {listed})' if listed else ''}"


def _less(what: Callable[[Outcome], float], unit: str) -> Callable[[Finding, list[Outcome], list[Outcome]], Judgement]:
    def judge(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
        if not arm or not other:
            return "inconclusive", "no runs"
        first, second = fmean(map(what, arm)), fmean(map(what, other))
        if not second:
            return "inconclusive", "nothing was measured"
        figures = f"{first:,.0f} {unit} against {second:,.0f}, {first / second:.0%}"
        return ("yes" if first < 0.95 * second else "the opposite" if first > 1.05 * second else "no"), figures

    return judge


def _falls(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
    changes = []
    for outcome in arm:
        values = [value for _, value in sorted(outcome.curves.get(finding.metric, {}).items())]
        if len(values) >= 2:
            window = min(_WINDOW, len(values) // 2)
            changes.append((fmean(values[:window]), fmean(values[-window:])))
    if not changes:
        return "inconclusive", "too few iterations"
    first, last = (fmean(side) for side in zip(*changes, strict=True))
    falls = sum(after < before for before, after in changes)
    figures = f"{first:.1f} → {last:.1f}, lower in {falls} of {len(changes)} runs"
    return ("yes" if falls == len(changes) else "the opposite" if falls == 0 else "no difference seen"), figures


_CLAIMS: dict[str, Callable[[Finding, list[Outcome], list[Outcome]], Judgement]] = {
    "higher": _higher,
    "not_lower": _not_lower,
    "collapses_later": _collapses_later,
    "less_update_time": _less(lambda outcome: outcome.update_seconds, "s of updates"),
    "less_memory": _less(lambda outcome: outcome.megabytes, "MiB"),
    "falls": _falls,
}
