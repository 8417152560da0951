"""Plan of an update: optimiser steps, and the micro-batches of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config.run import RunConfig
from trainer.distributed.group import ProcessGroup
from trainer.learner.micro_batches import partition, partition_shared
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.packing.shared_prefix import SharedPrefix, find_row_prefixes, prefixes_within
from trainer.rollout.trajectory import Batch
from trainer.seeds import Purpose, derive


class MicroBatch(NamedTuple):
    """Rows that go through a model in one forward pass.

    Attributes:
        rows: (n,) indices in the planned batch.
        batch: the rows, on the device.
        packed: layout of the rows in one long row; None: they are computed with their padding.
    """

    rows: Tensor
    batch: Batch
    packed: PackedBatch | None


@dataclass
class MicroBatchPlan:
    """Partition of a batch into micro-batches: rows with a common prefix are kept together, others sorted by length.

    Prefixes are found once, and each partition is computed once per micro-batch size.

    Attributes:
        prefixes: prefixes that rows share, in rounds; empty: no prefix is computed once for several rows.
        packing: pack micro-batches with padding into one long row.
        group: processes among which the rows are divided.
    """

    batch: Batch
    prefixes: list[list[SharedPrefix]]
    packing: bool
    group: ProcessGroup
    device: torch.device
    _partitions: dict[int, list[Tensor]] = field(default_factory=dict, repr=False)

    def micro_batches(self, max_tokens: int) -> Iterator[MicroBatch]:
        """Yield this process's micro-batches, at most `max_tokens` tokens each unless a single row is longer.

        If processes must compute in step, a process without remaining rows gets micro-batches with an empty mask and
        loss 0.
        """
        for rows in self._partition(max_tokens):
            idle = len(rows) == 0
            rows = self._lengths.argmin()[None] if idle else rows
            batch, packed = self.batch.select(rows), None
            if idle:
                batch.mask, batch.attention = torch.zeros_like(batch.mask), torch.zeros_like(batch.attention)
            elif self.prefixes or (self.packing and not bool(batch.attention.all())):
                prefixes = prefixes_within(self.prefixes, rows)
                packed = PackedBatch.of(batch.attention, prefixes, mask=batch.mask, device=self.device)
            yield MicroBatch(rows, batch.to(self.device), packed)

    def count(self, max_tokens: int) -> int:
        """Return the number of this process's micro-batches."""
        return len(self._partition(max_tokens))

    @property
    def _lengths(self) -> Tensor:
        return self.batch.attention.sum(1)

    def _partition(self, max_tokens: int) -> list[Tensor]:
        if max_tokens not in self._partitions:
            rank, size, even = self.group.rank, self.group.size, self.group.sharded
            self._partitions[max_tokens] = (
                partition_shared(self._lengths, self.prefixes, max_tokens, rank, size, even=even)
                if self.prefixes
                else partition(self._lengths, max_tokens, rank, size, even=even)
            )
        return self._partitions[max_tokens]


@dataclass(frozen=True)
class Planner:
    """Creates the plans of a run's batches.

    Attributes:
        share_prefixes: compute a common prefix of a micro-batch's rows only once.
        packing, group, device: see `MicroBatchPlan`.
    """

    share_prefixes: bool
    packing: bool
    group: ProcessGroup
    device: torch.device

    def plan(self, batch: Batch, group: ProcessGroup | None = None) -> MicroBatchPlan:
        """Plan a batch, divided among the processes of a group (default: all)."""
        prefixes = find_row_prefixes(batch.ids, batch.attention, batch.mask) if self.share_prefixes else []
        return MicroBatchPlan(batch, prefixes, self.packing, group or self.group, self.device)


def plan_passes(batch: Batch, config: RunConfig, iteration: int) -> Iterator[list[Tensor]]:
    """Yield the rows of an iteration's optimiser steps, pass by pass over the rollout.

    A pass takes all trajectories in random order, `mini_batch_trajectories` whole trajectories in each step.
    """
    for reuse in range(config.algorithm.updates_per_rollout):
        generator = torch.Generator().manual_seed(derive(config.seed, Purpose.UPDATE, iteration, reuse))
        order = torch.randperm(int(batch.trajectory.max()) + 1, generator=generator)
        yield [
            torch.cat([(batch.trajectory == number).nonzero()[:, 0] for number in trajectories])
            for trajectories in torch.split(order, config.optimizer.mini_batch_trajectories)
        ]
