"""What an update did with each token of its batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.distributed.group import ProcessGroup
from trainer.learner.step_losses import StepGradients
from trainer.rollout.trajectory import Batch


@dataclass(frozen=True)
class LearntTokens:
    """Tokens of an update's batch after the update, (B, T); 0 and False off the mask.

    Attributes:
        advantages: as estimated, without importance weights.
        logprobs: the policy's log-probability, nats, in the first step that read the token, before its gradient.
        ratios: importance ratio in the last step that read it.
        clipped: whether a bound cut off (cispo: limited) its gradient in the last step that read it.
        taught: whether the objective had a gradient at the token in any step.
        trains_policy: False if the update trained only the critic; the policy's four numbers are then 0.
    """

    advantages: Tensor
    logprobs: Tensor
    ratios: Tensor
    clipped: Tensor
    taught: Tensor
    trains_policy: bool = True


@dataclass(frozen=True)
class LearntBatch:
    """An update's batch, and its tokens after the update."""

    batch: Batch
    tokens: LearntTokens

    def numbers(self, tokens: Tensor) -> set[int]:
        """Return the numbers of the trajectories with at least one of these (B, T) tokens."""
        return set(self.batch.trajectory[(tokens & self.batch.mask).any(dim=1)].tolist())


class TokenLedger:
    """Collects the tokens' numbers over the optimiser steps of an update, for the rows of this process.

    Args:
        shape: (B, T) of the update's batch.
    """

    def __init__(self, shape: torch.Size) -> None:
        self.logprobs, self.ratios = torch.zeros(shape), torch.zeros(shape)
        self.clipped, self.taught = torch.zeros(shape), torch.zeros(shape)
        self._read = torch.zeros(shape[0], dtype=torch.bool)

    def add(self, rows: Tensor, step: StepGradients) -> None:
        """Add a step of the batch's `rows`, (n,) indices."""
        width = step.logprobs.shape[1]
        new = ~self._read[rows]
        self.logprobs[rows[new], :width] = step.logprobs[new]
        self.ratios[rows, :width] = step.tokens.ratios
        self.clipped[rows, :width] = step.tokens.clipped.float()
        self.taught[rows, :width] += step.tokens.teaches.float()
        self._read[rows] = True

    def result(self, group: ProcessGroup, advantages: Tensor, *, trains_policy: bool) -> LearntTokens:
        """Return the numbers of all rows, from all processes."""
        group.all_reduce(self.logprobs, self.ratios, self.clipped, self.taught)
        return LearntTokens(
            advantages, self.logprobs, self.ratios, self.clipped > 0, self.taught > 0, trains_policy=trains_policy
        )
