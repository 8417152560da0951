"""What the cells' journals say: curves, final successes, collapses, costs; and whether the paper's findings appear.

A collapse is told by success alone, the same way for every arm: the mean of five iterations falls below half of what it
was at its best, and never comes back above that.
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
_BEST = 0.1  # success that a run must once have reached to be able to collapse
_SURE = 2.0  # standard errors


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
    """One cell, read. Curves are by metric name: (iteration, value)."""

    world: str
    arm: str
    seed: int
    iterations: int = 0
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    exams: dict[str, list[EvaluationResult]] = field(default_factory=dict)
    suite: str = ""
    alarms: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: float = 0.0

    def final(self, suite: str = "") -> EvaluationResult | None:
        """The last evaluation of a suite (default: the world it trained in)."""
        found = self.exams.get(suite or self.suite)
        return found[-1] if found else None

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
        """The iteration at which the Echo Trap watch first spoke of a collapse."""
        return next((iteration for iteration, state in self.alarms if state == "trapped"), None)


def collapse(success: Sequence[float]) -> int | None:
    """1-based iteration from which the mean of five stays below half of its best; None where that never happens."""
    smooth = [fmean(success[max(0, at + 1 - _WINDOW) : at + 1]) for at in range(len(success))]
    best, fallen = 0.0, None
    for at, value in enumerate(smooth):
        best = max(best, value)
        if best >= _BEST and value < best / 2:
            fallen = fallen or at + 1
        else:
            fallen = None
    return fallen if fallen is not None and len(success) - fallen >= _WINDOW - 1 else None


def read(cell: Cell) -> Outcome:
    """A cell's journal; of iterations that were played twice, after a resume or a rewind, the last counts."""
    outcome = Outcome(cell.world, cell.arm.name, cell.seed, suite=cell.config.environment.name)
    for event in reader.read(cell.folder / JOURNAL_FILE):
        match event:
            case events.RunStarted():
                _forget(outcome, event)
            case events.Metrics():
                outcome.iterations = max(outcome.iterations, event.iteration)
                for name, value in event.values.items():
                    outcome.curves.setdefault(name, {})[event.iteration] = value
            case events.Evaluation():
                exam = EvaluationResult(
                    event.iteration, event.prompts, event.success, event.success_low, event.success_high
                )
                outcome.exams.setdefault(event.suite, []).append(exam)
            case events.Alarm():
                outcome.alarms.append((event.iteration, event.state))
    cost = read_cost(cell.folder)
    outcome.seconds, outcome.megabytes = cost["seconds"], cost["megabytes"]
    return outcome


def _forget(outcome: Outcome, start: events.RunStarted) -> None:
    """Leave out what the new attempt supersedes."""
    for curve in outcome.curves.values():
        for iteration in [i for i in curve if i > start.from_iteration]:
            del curve[iteration]
    for suite, exams in outcome.exams.items():
        outcome.exams[suite] = [exam for exam in exams if exam.iteration <= start.evaluated_iteration]
    outcome.alarms = [(iteration, state) for iteration, state in outcome.alarms if iteration <= start.from_iteration]


@dataclass(frozen=True)
class FindingVerdict:
    """Whether a finding appears in one world, in a word, and from which figures that was told."""

    finding: str
    world: str
    word: str
    figures: str


def verdicts(study: Study, outcomes: Iterable[Outcome]) -> list[FindingVerdict]:
    """Every finding of the study in every world."""
    found = list(outcomes)
    judged = []
    for finding in study.findings:
        for world in study.worlds:
            arm = [o for o in found if (o.world, o.arm) == (world, finding.arm)]
            other = [o for o in found if (o.world, o.arm) == (world, finding.other)]
            word, figures = _CLAIMS[finding.claim](finding, arm, other)
            judged.append(FindingVerdict(finding.words, world, word, figures))
    return judged


Judgement = tuple[str, str]


def _higher(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
    difference, error = _difference(finding, arm, other)
    if difference is None:
        return "cannot be told", "no evaluations"
    figures = f"{100 * difference:+.1f} points, standard error {100 * error:.1f}"
    if difference > _SURE * error:
        return "yes", figures
    return ("the opposite" if difference < -_SURE * error else "no difference seen"), figures


def _not_lower(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
    word, figures = _higher(finding, arm, other)
    return {"yes": "yes", "no difference seen": "yes, within the error", "the opposite": "no"}.get(word, word), figures


def _difference(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> tuple[float | None, float]:
    """Difference of mean final success, and its standard error: by seeds or by prompts, whichever is larger."""
    pairs = [[exam for o in side if (exam := o.final(finding.suite))] for side in (arm, other)]
    if not all(pairs):
        return None, 0.0
    squares = 0.0
    for exams in pairs:
        rates = [exam.success for exam in exams]
        rate, trials = fmean(rates), sum(exam.prompts for exam in exams)
        between = variance(rates) / len(rates) if len(rates) > 1 else 0.0
        squares += max(between, rate * (1 - rate) / trials)
    first, second = (fmean(exam.success for exam in exams) for exams in pairs)
    return first - second, math.sqrt(squares)


def _collapses_later(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
    if not arm or not other:
        return "cannot be told", "no runs"
    ours, theirs = ([o.collapse for o in side] for side in (arm, other))
    figures = f"{_collapses(ours)} against {_collapses(theirs)}"
    if not any(theirs) and not any(ours):
        return "cannot be told", f"no run of either collapsed within {max(o.iterations for o in arm)} iterations"
    last = max(o.iterations for o in [*arm, *other]) + 1
    first, second = (fmean(value or last for value in side) for side in (ours, theirs))
    return ("yes" if first > second else "the opposite" if first < second else "no difference seen"), figures


def _collapses(found: list[int | None]) -> str:
    told = ", ".join(str(value) for value in found if value)
    return f"{sum(map(bool, found))} of {len(found)} collapsed{f' (iteration {told})' if told else ''}"


def _less(what: Callable[[Outcome], float], unit: str) -> Callable[[Finding, list[Outcome], list[Outcome]], Judgement]:
    def judge(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Judgement:
        if not arm or not other:
            return "cannot be told", "no runs"
        first, second = fmean(map(what, arm)), fmean(map(what, other))
        if not second:
            return "cannot be told", "nothing was measured"
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
        return "cannot be told", "too few iterations"
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
