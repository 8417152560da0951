"""Progress of an update, reported micro-batch by micro-batch while it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.learner.micro_batch_plan import MicroBatch, MicroBatchPlan

Stage = Literal["prepare", "reference", "old", "values", "diagnostics", "step"]
STEP_COST = 3.0
"""Cost of a row in an optimiser step, forward and backward, in forward passes of one row."""


@dataclass(frozen=True)
class UpdateReport:
    """State of an update before a micro-batch, or at its end.

    Attributes:
        stage: stage of the update, see `trainer.journal.events.UpdateProgress`.
        done, total: micro-batches of the stage in this process; in optimiser steps, of the pass over the rollout; when
            preparing, thoughts.
        pass_number, passes: pass over the rollout, from 1 (0 before the first), and planned passes.
        share: completed work of the whole update, 0 to 1; preparation is not part of it.
        groups: groups with rows in the current micro-batch, ascending; empty at the end.
    """

    stage: Stage
    done: int
    total: int
    pass_number: int
    passes: int
    share: float
    groups: list[int]


class UpdateMeter:
    """Counts the micro-batches of consecutive updates.

    A phase that runs out of memory starts over with smaller micro-batches: its completed part is not counted, and the
    number of planned micro-batches is corrected.

    Attributes:
        on_progress: receives a report before each micro-batch, and after the last one of the update.
    """

    def __init__(self) -> None:
        self.on_progress: Callable[[UpdateReport], None] = lambda report: None
        self.begin(0.0, 0)

    def begin(self, planned: float, passes: int) -> None:
        """Begin an update.

        Args:
            planned: work of the update, in forward passes of one row.
            passes: number of passes over the rollout.
        """
        self._planned, self._finished = planned, 0.0
        self._passes, self._pass = passes, 0
        self._plans: Sequence[MicroBatchPlan] = ()
        self._step = self._done_before = 0

    def prepare(self, items: Sequence[int], before: int = 0, after: int = 0) -> Iterator[int]:
        """Yield the items, each reported before it is measured, ahead of the update that begins afterwards.

        Args:
            before, after: items of earlier and later measurements.
        """
        self.begin(0.0, 0)
        for number, item in enumerate(items, start=before):
            self._report("prepare", number, before + len(items) + after, 0.0, [])
            yield item

    def begin_pass(self, plans: Sequence[MicroBatchPlan]) -> None:
        """Begin a pass over the rollout: the plans of its optimiser steps, in order."""
        self._plans, self._step, self._done_before = plans, 0, 0
        self._pass += 1

    def watch(self, plan: MicroBatchPlan, max_tokens: int, stage: Stage, cost: float = 1.0) -> Iterator[MicroBatch]:
        """Yield the plan's micro-batches, each reported before it is computed.

        Args:
            cost: work of a row, in forward passes of one row; 0: not planned as work of the update.
        """
        count = plan.count(max_tokens)
        in_pass = stage == "step"
        done = self._done_before if in_pass else 0
        later = sum(other.count(max_tokens) for other in self._plans[self._step + 1 :]) if in_pass else 0
        for number, micro_batch in enumerate(plan.micro_batches(max_tokens)):
            work = cost * len(plan.batch) * number / count
            groups = sorted(set(plan.batch.group[micro_batch.rows].tolist()))
            self._report(stage, done + number, done + count + later, work, groups)
            yield micro_batch
        self._finished += cost * len(plan.batch)
        if in_pass:
            self._done_before, self._step = done + count, self._step + 1
            if self._pass == self._passes and self._step == len(self._plans):
                self._report(stage, self._done_before, self._done_before, 0.0, [])

    def _report(self, stage: Stage, done: int, total: int, work: float, groups: list[int]) -> None:
        share = (self._finished + work) / self._planned if self._planned else 0.0
        self.on_progress(UpdateReport(stage, done, total, self._pass, self._passes, min(1.0, share), groups))
