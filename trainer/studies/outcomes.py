"""Outcome of one run of a study: curves, final success, a collapse, costs. Computed only from its metrics.

A collapse is defined only by success, equally for all arms: the mean of five iterations falls and stays below half of
its best, by more than the noise of single iterations explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

GPU_MEMORY, OWN_GPU_MEMORY = "system/gpu_memory_bytes", "system/gpu_reserved_bytes"
"""Memory used on the run's GPUs by all processes, and the peak reserved by the run's process."""
UPDATE, STEPS = "time/update", "update/steps"
WINDOW = 5
"""Number of iterations whose mean counts as the value at their end."""
_MIN_BEST = 0.1  # best success that a collapse must start from
_NOISE_FACTOR = 4.0  # standard errors; more than 2, because the best of many means exceeds the true one by chance


@dataclass
class EvaluationResult:
    """An evaluation of a suite: success on a number of prompts with its 95 % interval.

    `puzzles` is the share of successes on each prompt, in order; empty if unknown.
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
    compared only if these are equal. `trains` is false for a run that only evaluates its policy.
    """

    environment: str
    arm: str
    seed: int
    iterations: int = 0
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    evaluations: dict[str, list[EvaluationResult]] = field(default_factory=dict)
    suite: str = ""
    trains: bool = True
    alarms: list[tuple[int, str]] = field(default_factory=list)
    rewinds: int = 0
    taken_back: dict[str, float] = field(default_factory=dict)
    timed_in: tuple[str, ...] = ()
    seconds: float = 0.0
    megabytes: float = 0.0

    def final(self, suite: str = "") -> EvaluationResult | None:
        """The last evaluation of a suite (default: the training environment); none until training has led to one."""
        results = self.evaluations.get(suite or self.suite)
        return results[-1] if results and (results[-1].iteration > 0 or not self.trains) else None

    def first(self, suite: str = "") -> EvaluationResult | None:
        """Return the evaluation of a suite before training (default: the training environment); None without one."""
        results = self.evaluations.get(suite or self.suite)
        return results[0] if results and results[0].iteration == 0 else None

    def last(self, name: str) -> float | None:
        """Return the value of a metric at the current end of the run."""
        values = [value for _, value in sorted(self.curves.get(name, {}).items())][-get_window(name) :]
        return fmean(values) if values else None

    @property
    def learner_megabytes(self) -> float:
        """Peak memory of the learner in MiB: reserved GPU memory, or otherwise the memory of its process.

        0 if only the GPU use of all processes is known, which may include other runs.
        """
        if reserved := self.curves.get(OWN_GPU_MEMORY):
            return max(reserved.values()) / 2**20 or self.megabytes
        return 0.0 if GPU_MEMORY in self.curves else self.megabytes

    def total(self, name: str) -> float:
        """Sum a metric over all iterations, including those that rewinds took back."""
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
        """The iteration at which the Echo Trap detector first reported a collapse, even if it was taken back."""
        return next((iteration for iteration, state in self.alarms if state == "trapped"), None)


def get_window(metric: str) -> int:
    """Return the number of iterations to average for a metric: evaluations are few, and each plays many puzzles."""
    return 1 if metric.startswith("eval/") else WINDOW


def collapse(success: Sequence[float]) -> int | None:
    """Find the 1-based iteration from which the mean of five stays below half of its best; None if there is none.

    Also None if the fall from the best mean to the later mean is within the noise, estimated from the differences of
    adjacent iterations: the success of few, unequal puzzles also varies much in a flat run.
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
    """Estimate the standard deviation of single iterations around a slowly changing course."""
    return math.sqrt(fmean((later - earlier) ** 2 for earlier, later in pairwise(success)) / 2)


def puzzle_note(outcomes: Iterable[Outcome]) -> str:
    """Say that verdicts on success do not extend to unplayed puzzles; empty if their error accounts for that."""
    finals = [evaluation for outcome in outcomes if (evaluation := outcome.final())]
    if not finals or all(len(evaluation.puzzles) > 1 for evaluation in finals):
        return ""
    return "All seeds play the same puzzles, and results by puzzle are unknown: verdicts on success hold for them only."
