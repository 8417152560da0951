"""Trajectories that span several rows of a batch because the policy's context is windowed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.rollout.trajectory import Batch


@dataclass(frozen=True)
class TrajectoryRows:
    """Layout of N trajectories with one row each: its sampled tokens, in order, with a gap between turns.

    Attributes:
        mask: (B, T) mask of the batch.
        row, column: (number of sampled tokens,) position of each token in the (N, W) layout.
        first: (N,) each trajectory's first row in the batch.
    """

    mask: Tensor
    row: Tensor
    column: Tensor
    first: Tensor

    @classmethod
    def of(cls, batch: Batch) -> TrajectoryRows:
        """Return the layout of a batch with all rows of each trajectory, in order.

        Raises:
            ValueError: the rows of a trajectory are not adjacent.
        """
        _, number, rows = torch.unique(batch.trajectory, return_inverse=True, return_counts=True)
        first = rows.cumsum(0) - rows
        if not torch.equal(number, torch.arange(len(rows)).repeat_interleave(rows)):
            raise ValueError("the rows of a trajectory must be adjacent and in order")
        sampled = batch.mask.sum(dim=1)
        offset = sampled.cumsum(0) - sampled
        rank = batch.mask.cumsum(dim=1) - 1 + (offset - offset[first][number])[:, None]
        column = rank + batch.turn_of  # the k-th turn has k gaps before it
        return cls(batch.mask, number[:, None].expand(batch.mask.shape)[batch.mask], column[batch.mask], first)

    def gather(self, values: Tensor, blank: float = 0) -> Tensor:
        """Convert (B, T) to (N, W), with `blank` where there is no sampled token."""
        gathered = values.new_full((len(self.first), int(self.column.max()) + 1), blank)
        gathered[self.row, self.column] = values[self.mask]
        return gathered

    def scatter(self, values: Tensor) -> Tensor:
        """Convert (N, W) to (B, T), with 0 off the mask."""
        scattered = values.new_zeros(self.mask.shape)
        scattered[self.mask] = values[self.row, self.column]
        return scattered

    def batch(self, batch: Batch) -> Batch:
        """Return the batch with one row per trajectory, for estimators."""
        mask = self.gather(batch.mask)
        return Batch(
            ids=self.gather(batch.ids),
            attention=mask,
            mask=mask,
            sampler_logprobs=self.gather(batch.sampler_logprobs),
            rewards=self.gather(batch.rewards),
            turn_of=self.gather(batch.turn_of, blank=-1),
            group=batch.group[self.first],
            environment=batch.environment[self.first],
            weight=batch.weight[self.first],
            anchors=batch.anchors[self.first],
            total_rewards=batch.total_rewards[self.first],
            trajectory=batch.trajectory[self.first],
            tokens=batch.tokens[self.first],
        )
