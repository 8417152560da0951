"""Advantages where trajectories lie in several rows of a batch, because the policy saw its dialogue through a window.

The estimators know one row a trajectory; here its rows become one, and the result goes back to where the tokens are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config.run import AlgorithmConfig
from trainer.learner import advantage_estimation
from trainer.learner.advantage_estimation import AdvantageEstimate
from trainer.rollout.trajectory import Batch


def estimate(batch: Batch, rewards: Tensor, values: Tensor | None, algorithm: AlgorithmConfig) -> AdvantageEstimate:
    """As `estimators.estimate`, for a batch in which trajectories may have several rows each."""
    if len(torch.unique(batch.trajectory)) == len(batch):
        return advantage_estimation.estimate_advantages(batch, rewards, values, algorithm)
    joined = TrajectoryRows.of(batch)
    known = None if values is None else joined.whole(values)
    found = advantage_estimation.estimate_advantages(joined.batch(batch), joined.whole(rewards), known, algorithm)
    returns = None if found.returns is None else joined.back(found.returns)
    return AdvantageEstimate(joined.back(found.advantages), returns)


@dataclass(frozen=True)
class TrajectoryRows:
    """Every trajectory as one row (N of them) of its sampled tokens, in order, with a gap between turns.

    `mask` (B, T) is the batch's; `row` and `column`, both (number of sampled tokens,), say where each of them goes;
    `first` (N,) is each trajectory's first row in the batch.
    """

    mask: Tensor
    row: Tensor
    column: Tensor
    first: Tensor

    @classmethod
    def of(cls, batch: Batch) -> TrajectoryRows:
        """The places of a batch whose trajectories are whole: all rows of each are there, in order."""
        _, number, rows = torch.unique(batch.trajectory, return_inverse=True, return_counts=True)
        first = rows.cumsum(0) - rows
        if not torch.equal(number, torch.arange(len(rows)).repeat_interleave(rows)):
            raise ValueError("the rows of a trajectory must stand together and in order")
        drawn = batch.mask.sum(dim=1)
        before = drawn.cumsum(0) - drawn
        rank = batch.mask.cumsum(dim=1) - 1 + (before - before[first][number])[:, None]
        column = rank + batch.turn_of  # the k-th turn has k gaps before it
        return cls(batch.mask, number[:, None].expand(batch.mask.shape)[batch.mask], column[batch.mask], first)

    def whole(self, values: Tensor, blank: float = 0) -> Tensor:
        """(B, T) → (N, W), `blank` where no sampled token stands."""
        found = values.new_full((len(self.first), int(self.column.max()) + 1), blank)
        found[self.row, self.column] = values[self.mask]
        return found

    def back(self, values: Tensor) -> Tensor:
        """(N, W) → (B, T), 0 off the mask."""
        found = values.new_zeros(self.mask.shape)
        found[self.mask] = values[self.row, self.column]
        return found

    def batch(self, batch: Batch) -> Batch:
        """The batch with one row a trajectory: for estimators, which look at rewards, masks, turns and groups."""
        mask = self.whole(batch.mask)
        return Batch(
            ids=self.whole(batch.ids),
            attention=mask,
            mask=mask,
            sampler_logprobs=self.whole(batch.sampler_logprobs),
            rewards=self.whole(batch.rewards),
            turn_of=self.whole(batch.turn_of, blank=-1),
            group=batch.group[self.first],
            environment=batch.environment[self.first],
            weight=batch.weight[self.first],
            anchors=batch.anchors[self.first],
            total_rewards=batch.total_rewards[self.first],
            trajectory=batch.trajectory[self.first],
            tokens=batch.tokens[self.first],
        )
