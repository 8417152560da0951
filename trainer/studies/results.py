"""Results and verdicts of a study so far, computed from its runs, wherever they were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from trainer.metrics.registry import get_spec
from trainer.studies.outcomes import Outcome, puzzle_note
from trainer.studies.paper import REPORTED, Reported
from trainer.studies.study import SUCCESS, Arm, Scale, Study

if TYPE_CHECKING:
    from trainer.studies.estimates import ArmDifference
    from trainer.studies.verdicts import FindingVerdict


@dataclass(frozen=True)
class RunRow:
    """A run of a study: its outcome so far, and its state for readers.

    Attributes:
        key: identifies the run to the caller.
        complete: whether it ended as planned: its results will not change, and verdicts count them.
        state: state of the run as text.
        iterations: number of planned iterations; 0 if it no longer matters.
        link: address of the run, empty if the reader may not open it.
    """

    outcome: Outcome
    key: int = 0
    complete: bool = True
    state: str = "complete"
    iterations: int = 0
    title: str = ""
    link: str = ""

    @property
    def begun(self) -> bool:
        return self.complete or self.outcome.iterations > 0

    @property
    def success(self) -> float | None:
        """Success in the run's last evaluation on its training environment."""
        last = self.outcome.final()
        return None if last is None else last.success

    @property
    def before(self) -> float | None:
        """Success before training."""
        first = self.outcome.first()
        return None if first is None else first.success


@dataclass(frozen=True)
class ArmResult:
    """An arm in one environment. Success counts the last evaluation of each run, complete or not.

    Attributes:
        number: number of the arm in the study, from 1.
        metric: metric of `value`.
        stopped: reason for stopping it early; empty if it was not stopped.
    """

    arm: Arm
    number: int
    environment: str
    rows: Sequence[RunRow]
    metric: str = SUCCESS
    stopped: str = ""
    reported: Sequence[Reported] = ()

    @property
    def colour(self) -> int:
        """Number of the arm's line in charts, from 1."""
        return (self.number - 1) % 8 + 1

    @property
    def begun(self) -> list[Outcome]:
        """Outcomes of the runs that have played anything."""
        return [row.outcome for row in self.rows if row.begun]

    @property
    def successes(self) -> list[float]:
        return [row.success for row in self.rows if row.success is not None]

    @property
    def mean(self) -> float | None:
        return _mean(self.successes)

    @property
    def deviation(self) -> float | None:
        return stdev(self.successes) if len(self.successes) > 1 else None

    @property
    def before(self) -> float | None:
        return _mean([row.before for row in self.rows if row.before is not None])

    @property
    def complete(self) -> int:
        """Number of runs that ended as planned."""
        return sum(row.complete for row in self.rows)

    @property
    def value(self) -> float | None:
        """Mean over runs of the study's metric, at the current ends of the runs."""
        return _mean([value for row in self.rows if (value := row.outcome.last(self.metric)) is not None])

    @property
    def steps(self) -> float | None:
        return _mean([outcome.steps for outcome in self.begun if outcome.steps])

    @property
    def update_seconds(self) -> float | None:
        return _mean([outcome.update_seconds for outcome in self.begun if outcome.update_seconds])

    @property
    def seconds(self) -> float | None:
        return _mean([outcome.seconds for outcome in self.begun if outcome.seconds])

    @property
    def learner_megabytes(self) -> float | None:
        """Mean of the learner's peaks, if all are known."""
        peaks = [outcome.learner_megabytes for outcome in self.begun]
        return _mean(peaks) if all(peaks) else None


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


@dataclass(frozen=True)
class StudyResults:
    """Results of a study so far.

    Attributes:
        seeds: planned seeds of each arm.
        scale: scale of a study in the catalogue.
        metric: metric for comparing the arms of other studies, in addition to success; empty: only success.
        ranked: whether the arms are trials of a search, listed from best to worst.
        stopped: reason for stopping an arm early, by name.
    """

    plan: Study
    rows: Sequence[RunRow]
    seeds: int
    scale: Scale | None = None
    metric: str = ""
    ranked: bool = False
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def reported(self) -> Sequence[Reported]:
        """Figures of the paper, for studies of its catalogue."""
        return REPORTED.get(self.plan.name, ())

    @cached_property
    def arms(self) -> list[ArmResult]:
        """Arms by environment, or from best to worst."""
        rows_by_arm: dict[tuple[str, str], list[RunRow]] = {}
        for row in self.rows:
            rows_by_arm.setdefault((row.outcome.environment, row.outcome.arm), []).append(row)
        results = [
            self._arm(number, arm, environment, rows_by_arm.get((environment, arm.name), []))
            for environment in self.plan.environments
            for number, arm in enumerate(self.plan.arms, start=1)
            # an arm of a grid over environments is trained in one of them
            if (environment, arm.name) in rows_by_arm or not self.metric or len(self.plan.environments) == 1
        ]
        if self.ranked:
            sign = -1.0 if get_spec(self.metric).better == "up" else 1.0
            results.sort(key=lambda arm: (arm.value is None, sign * (arm.value or 0.0)))
        return results

    def _arm(self, number: int, arm: Arm, environment: str, rows: Sequence[RunRow]) -> ArmResult:
        reported = [
            figure
            for figure in self.reported
            if (figure.environment or environment, figure.arm) == (environment, arm.name)
        ]
        return ArmResult(
            arm, number, environment, rows, self.metric or SUCCESS, self.stopped.get(arm.name, ""), reported
        )

    @cached_property
    def judged(self) -> list[Outcome]:
        """Outcomes of the complete runs, the basis of verdicts."""
        return [row.outcome for row in self.rows if row.complete]

    @cached_property
    def verdicts(self) -> list[FindingVerdict]:
        """Claims of the study, tested over the complete runs."""
        if not self.plan.findings:
            return []
        from trainer.studies.verdicts import verdicts  # scipy: tens of megabytes that other pages do without

        return verdicts(self.plan, self.judged, self.seeds)

    @cached_property
    def differences(self) -> list[ArmDifference]:
        """Estimates of the differences that the claims on success are about, over the complete runs."""
        if not self.plan.findings:
            return []
        from trainer.studies.estimates import differences

        return differences(self.plan, self.judged)

    @property
    def puzzle_note(self) -> str:
        """Note on the puzzles to which verdicts on success apply, if only to these."""
        return puzzle_note(self.judged) if self.plan.findings else ""
