"""Interfaces between a run's loop and its learners, wherever they compute.

`Learner` and `Imitator` are the groups of a run that learns in its main process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from torch import Tensor

from trainer.learner.learnt_tokens import LearntTokens
from trainer.learner.update_meter import UpdateReport
from trainer.policy.weights import VersionedWeights
from trainer.rollout.trajectory import Batch


class TrainedPolicy(Protocol):
    """Weights in training, with the state of their optimisers."""

    @property
    def version(self) -> int:
        """Version of the current weights: the number of updates."""

    def report_to(self, progress: Callable[[UpdateReport], None] | None = None) -> None:
        """Report the progress of updates from now on; None: no reports."""

    def notify_with(self, notify: Callable[[str], None]) -> None:
        """Send messages for the user, such as about a halved micro-batch, to `notify`."""

    def weights(self) -> VersionedWeights:
        """Return a copy of the policy's current weights."""

    def save(self, folder: Path) -> None:
        """Write policy, tokenizer, critic and optimisers into an existing folder.

        Raises:
            OSError: for example, the disk is full.
        """

    def load(self, folder: Path) -> list[str]:
        """Load critic, optimisers and adapters from such a folder; the policy is already loaded. Returns warnings.

        Raises:
            ModelError: the folder was saved with other LoRA settings.
        """

    def close(self) -> None:
        """Release everything that the group started; it cannot be used afterwards."""


class LearnerGroup(TrainedPolicy, Protocol):
    """Learners that update policy and critic on rollouts.

    Attributes:
        learnt: tokens of the last update's batch after it; None before the first update.
    """

    learnt: LearntTokens | None

    def update(self, batch: Batch, iteration: int, /) -> dict[str, float]:
        """Take all optimiser steps of one iteration. Returns the metrics of the update, without NaN and infinity."""

    def cross_scores(
        self, prompts: list[list[int]], thoughts: list[list[int]], before: int = 0, after: int = 0, /
    ) -> Tensor:
        """Return the (N, N) log-probability of each thought after each prompt, at temperature 1.

        Args:
            before, after: thoughts of earlier and later measurements of the iteration, for progress reports.
        """


class ImitatorGroup(TrainedPolicy, Protocol):
    """Learners that imitate demonstrations."""

    def imitate(self, batch: Batch, lr_factor: float, /) -> dict[str, float]:
        """Take one optimiser step on a batch of demonstrations, with this share of the learning rate.

        Returns its metrics.
        """

    def measure(self, batch: Batch, /) -> dict[str, float]:
        """Measure loss and token accuracy on held-out demonstrations."""
