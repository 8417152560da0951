"""Results of cells from their journals: curves, final success, collapses, costs.

A collapse is defined by success alone, equally for all arms: the mean of five iterations falls below half of its best
and stays there, by more than the noise of single iterations explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.studies.grid import Cell, read_cost

GPU_MEMORY = "system/gpu_memory_bytes"
WINDOW = 5
"""Iterations whose mean counts as the value at their end."""
_MIN_BEST = 0.1  # best success from which a fall counts as a collapse
_NOISE_FACTOR = 4.0  # standard errors; the best of many means is above the true one by chance alone, hence not 2


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
        values = list(self.curves.get(name, {}).values())[-WINDOW:]
        return fmean(values) if values else None

    @property
    def learner_megabytes(self) -> float:
        """Peak memory of the device that learns, in MiB: of the GPU where there is one, else of the process."""
        return max(self.curves.get(GPU_MEMORY, {}).values(), default=0.0) / 2**20 or self.megabytes

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
    """1-based iteration from which the mean of five stays below half of its best; None if it never does.

    Also None where the fall from the best mean to the mean of what follows is within the noise, estimated from the
    differences of neighbouring iterations: the success of few, unequal puzzles varies much in a flat run, too.
    """
    smooth = [fmean(success[at - WINDOW : at]) for at in range(WINDOW, len(success) + 1)]
    best, fallen = 0.0, None
    for at, value in enumerate(smooth, start=WINDOW):
        best = max(best, value)
        if best >= _MIN_BEST and value < best / 2:
            fallen = fallen or at
        else:
            fallen = None
    if fallen is None or len(success) - fallen < WINDOW - 1:
        return None
    later = success[fallen - WINDOW :]
    error = _noise(success) * math.sqrt(1 / WINDOW + 1 / len(later))
    return fallen if best - fmean(later) > _NOISE_FACTOR * error else None


def _noise(success: Sequence[float]) -> float:
    """Standard deviation of single iterations around a course that changes slowly."""
    return math.sqrt(fmean((later - earlier) ** 2 for earlier, later in pairwise(success)) / 2)


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
