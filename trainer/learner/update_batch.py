"""Tensors that accompany a batch through its update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from trainer.policy.packing.host_transfer import to_device


@dataclass
class TokenLogprobs:
    """(B, T) log-probabilities of the sampled tokens and entropies of their distributions; 0 off the mask."""

    logprobs: Tensor
    entropies: Tensor


@dataclass
class BatchScores:
    """(B, T) numbers of a batch before its update.

    Attributes:
        old_logprobs: denominators of the importance ratio.
        token_weights: truncated importance weights of the tokens' gradients; 1 without correction.
        reference: log-probabilities under the initial policy; None without a KL penalty.
        values: predictions of the critic; None without one.
    """

    old_logprobs: Tensor
    token_weights: Tensor
    reference: Tensor | None
    values: Tensor | None


@dataclass
class UpdateTensors:
    """(B, T) tensors that the losses of an update read; `reference` is None without a KL penalty."""

    advantages: Tensor
    returns: Tensor
    old_values: Tensor
    old_logprobs: Tensor
    reference: Tensor | None

    def select(self, rows: Tensor, width: int) -> UpdateTensors:
        """Select the given rows, cut to this many tokens."""
        return self._map(lambda values: values[rows, :width])

    def to(self, device: torch.device) -> UpdateTensors:
        """Move the tensors to a device."""
        return self._map(lambda values: to_device(values, device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> UpdateTensors:
        def changed(values: Tensor) -> Tensor:
            return values if values is None else change(values)

        return UpdateTensors(**{field.name: changed(getattr(self, field.name)) for field in fields(self)})
