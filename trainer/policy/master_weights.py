"""float32 master copies of half-precision weights for the optimiser.

A step of 1e-6 on a weight of 0.1 is far below the resolution of bfloat16 there (4e-4): taken on the weight itself it
would always be lost. Gradients of micro-batches are summed in float32 for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

_HALF = (torch.bfloat16, torch.float16)


class StepWeights(Protocol):
    """Weights that an optimiser updates, and the model parameters that follow them."""

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The tensors that the optimiser updates."""

    def clip(self, max_norm: float) -> float:
        """Clip the gradients to this norm. Returns the norm before clipping."""

    def copy_to_model(self) -> None:
        """Update the module that computes the next step, after each step."""

    def finish(self) -> None:
        """Update the model that samples and scores, after the last step of an update."""

    def state(self) -> list[Tensor] | None:
        """Return the state for a checkpoint in addition to the model's parameters; None for nothing."""

    def load_state(self, saved: Sequence[Tensor] | None) -> None:
        """Load the result of `state`."""


class MasterWeights:
    """float32 copies of the half-precision parameters among given parameters.

    The optimiser updates full-precision parameters directly, so that nothing is copied for a float32 model. A gradient
    is moved to the copy as soon as it is accumulated, and its half-precision memory is freed.

    Args:
        parameters: trainable leaves, in the optimiser's order.
        enabled: False: the optimiser updates every parameter directly.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, enabled: bool = True) -> None:
        self.pairs = [
            (parameter, _master(parameter) if enabled and parameter.dtype in _HALF else parameter)
            for parameter in parameters
        ]
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(_move, master=master))  # type: ignore[no-untyped-call]
            for parameter, master in self.pairs
            if parameter is not master
        ]

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The tensors that the optimiser updates."""
        return [master for _, master in self.pairs]

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Round the copies into the model's parameters."""
        copied = [(parameter, master) for parameter, master in self.pairs if parameter is not master]
        if copied:
            torch._foreach_copy_([parameter for parameter, _ in copied], [master for _, master in copied])

    def finish(self) -> None:
        """No-op: the parameters follow every step."""

    def clip(self, max_norm: float) -> float:
        """Clip the gradients to this norm. Returns the norm before clipping."""
        return float(nn.utils.clip_grad_norm_(self.parameters, max_norm))

    def state(self) -> list[Tensor] | None:
        """Return the copies in order; None if there are none."""
        return [master.detach() for _, master in self.pairs] if self._hooks else None

    @torch.no_grad()
    def load_state(self, saved: Sequence[Tensor] | None) -> None:
        """Load the result of `state`; None (a checkpoint without copies) leaves the copies unchanged."""
        if saved is None or not self._hooks:
            return
        for (_, master), value in zip(self.pairs, saved, strict=True):
            master.copy_(value)


def _master(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(parameter.detach().float())


def _move(parameter: Tensor, *, master: nn.Parameter) -> None:
    """Add a new gradient to the copy's gradient and free it."""
    assert parameter.grad is not None
    if master.grad is None:
        master.grad = parameter.grad.float()
    else:
        master.grad.add_(parameter.grad)
    parameter.grad = None
