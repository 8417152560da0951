"""Results of cells from their journals: curves, final success, collapses, costs.

A collapse is defined by success alone, equally for all arms: the mean of five iterations falls below half of its best
and stays there, by more than the noise of single iterations explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.studies.grid import Cell, read_cost
from trainer.studies.reuse import study_folder

GPU_MEMORY, OWN_GPU_MEMORY = "system/gpu_memory_bytes", "system/gpu_reserved_bytes"
"""Used on the run's GPUs by all processes, and the peak that its own process reserved."""
UPDATE, STEPS = "time/update", "update/steps"
WINDOW = 5
"""Iterations whose mean counts as the value at their end."""
_MIN_BEST = 0.1  # best success from which a fall counts as a collapse
_NOISE_FACTOR = 4.0  # standard errors; the best of many means is above the true one by chance alone, hence not 2


@dataclass
class EvaluationResult:
    """One evaluation of a suite: success on so many prompts with its 95 % interval.

    `puzzles` is the share of successes on each of them, in order; empty if it is not known.
    """

    iteration: int
    prompts: int
    success: float
    low: float
    high: float
    puzzles: tuple[float, ...] = ()


@dataclass
class Outcome:
    """Results of one cell. Curves are by metric name: iteration → value.

    A rewind takes iterations back: their values leave the curves, but their alarms stay, and `taken_back` has the sums
    of their metrics by name, as the costs were real. `timed_in` names where and when the cell ran: times of cells are
    compared only if these are equal.
    """

    environment: str
    arm: str
    seed: int
    iterations: int = 0
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    evaluations: dict[str, list[EvaluationResult]] = field(default_factory=dict)
    suite: str = ""
    alarms: list[tuple[int, str]] = field(default_factory=list)
    rewinds: int = 0
    taken_back: dict[str, float] = field(default_factory=dict)
    timed_in: tuple[str, ...] = ()
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
        """Peak memory of the learner, in MiB: what it reserved on GPUs, else what its process used.

        0 if only the use of GPUs by all processes is known, among which may be other runs.
        """
        if own := self.curves.get(OWN_GPU_MEMORY):
            return max(own.values()) / 2**20 or self.megabytes
        return 0.0 if GPU_MEMORY in self.curves else self.megabytes

    def total(self, name: str) -> float:
        """Sum of a metric over all iterations, with those that rewinds took back."""
        return sum(self.curves.get(name, {}).values()) + self.taken_back.get(name, 0.0)

    @property
    def update_seconds(self) -> float:
        return self.total(UPDATE)

    @property
    def steps(self) -> float:
        """Optimiser steps, 0 if they were not recorded."""
        return self.total(STEPS)

    @property
    def collapse(self) -> int | None:
        """The iteration at which success collapsed, or None."""
        return collapse([value for _, value in sorted(self.curves.get("success/rate", {}).items())])

    @property
    def trapped(self) -> int | None:
        """The iteration at which the Echo Trap detector first reported a collapse, also if it was taken back."""
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
    reading = _Reading(outcome)
    for event in reader.read(cell.folder / JOURNAL_FILE):
        reading.add(event)
    outcome.alarms = [(alarm.iteration, alarm.state) for alarm in reading.alarms]
    cost = read_cost(cell.folder)
    outcome.seconds, outcome.megabytes = cost.seconds, cost.megabytes
    outcome.timed_in = (str(study_folder(cell).resolve()), *cost.sessions)
    return outcome


@dataclass
class _Reading:
    """A journal read so far."""

    outcome: Outcome
    alarms: list[events.Alarm] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    """Sequence numbers of alarms that a rewind took back, which later attempts do not repeat."""
    rewinding: bool = False
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Trajectory of the evaluation in progress → suite and number of its puzzle."""
    played: dict[tuple[str, int], dict[str, bool]] = field(default_factory=dict)

    def add(self, event: events.AnyEvent) -> None:
        outcome = self.outcome
        match event:
            case events.RunStarted():
                self._drop_superseded(event)
            case events.Metrics():
                outcome.iterations = max(outcome.iterations, event.iteration)
                for name, value in event.values.items():
                    outcome.curves.setdefault(name, {})[event.iteration] = value
            case events.GroupStarted(split="eval"):
                place = (event.suite or outcome.suite, event.group)
                self.places |= dict.fromkeys(event.members, place)
            case events.TrajectoryFinished() if event.trajectory in self.places:
                place = self.places[event.trajectory]
                self.played.setdefault(place, {})[event.trajectory] = bool(event.success)
            case events.Evaluation():
                result = EvaluationResult(
                    event.iteration,
                    event.prompts,
                    event.success,
                    event.success_low,
                    event.success_high,
                    self._take_puzzles(event.suite),
                )
                outcome.evaluations.setdefault(event.suite, []).append(result)
            case events.Alarm():
                self.alarms.append(event)
            case events.Rewound():
                outcome.rewinds += 1
                self.rewinding = True
                self.undone |= {alarm.seq for alarm in self.alarms if alarm.iteration > event.to_iteration}

    def _take_puzzles(self, suite: str) -> tuple[float, ...]:
        """Shares of successes in the evaluation of a suite that just ended."""
        places = sorted(place for place in self.played if place[0] == suite)
        self.places = {name: place for name, place in self.places.items() if place[0] != suite}
        return tuple(fmean(self.played.pop(place).values()) for place in places)

    def _drop_superseded(self, start: events.RunStarted) -> None:
        """Drop the results that the new attempt supersedes."""
        outcome = self.outcome
        for name, curve in outcome.curves.items():
            superseded = {iteration: value for iteration, value in curve.items() if iteration > start.from_iteration}
            if self.rewinding:
                outcome.taken_back[name] = outcome.taken_back.get(name, 0.0) + sum(superseded.values())
            for iteration in superseded:
                del curve[iteration]
        self.rewinding = False
        for suite, evaluations in outcome.evaluations.items():
            outcome.evaluations[suite] = [
                evaluation for evaluation in evaluations if evaluation.iteration <= start.evaluated_iteration
            ]
        self.alarms = [
            alarm for alarm in self.alarms if alarm.iteration <= start.from_iteration or alarm.seq in self.undone
        ]
        self.places, self.played = {}, {}


def puzzle_note(outcomes: Iterable[Outcome]) -> str:
    """What verdicts on success say about puzzles that were not played; empty where their error contains it."""
    finals = [evaluation for outcome in outcomes if (evaluation := outcome.final())]
    if not finals or all(len(evaluation.puzzles) > 1 for evaluation in finals):
        return ""
    return "All seeds play the same puzzles, and results by puzzle are unknown: verdicts on success hold for them only."
