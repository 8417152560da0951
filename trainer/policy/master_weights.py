"""float32 master copies of half-precision weights, which the optimiser steps on.

A step of 1e-6 on a weight of 0.1 is far below the resolution of bfloat16 there (4e-4): taken on the weight itself it
would be lost every time. Gradients of micro-batches are summed in float32 for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

_HALF = (torch.bfloat16, torch.float16)


class StepWeights(Protocol):
    """Weights that an optimiser steps on, and the model parameters that follow them."""

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The tensors that the optimiser steps on."""

    def clip(self, max_norm: float) -> float:
        """Clip the gradients to this norm. Returns their norm before."""

    def copy_to_model(self) -> None:
        """After a step: update the module that computes the next one."""

    def finish(self) -> None:
        """After the last step of an update: update the model that samples and scores."""

    def state(self) -> list[Tensor] | None:
        """What a checkpoint needs besides the model's parameters; None for nothing."""

    def load_state(self, saved: Sequence[Tensor] | None) -> None:
        """Load what `state` returned."""


class MasterWeights:
    """float32 copies of the half-precision ones among given parameters.

    Parameters of full precision are stepped on themselves, so that nothing is copied for a float32 model. A gradient
    is moved to the copy as soon as it is accumulated, and its half-precision memory is freed.

    Args:
        parameters: trainable leaves, in the optimiser's order.
        enabled: False: every parameter is stepped on itself.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, enabled: bool = True) -> None:
        self.pairs = [(own, _master(own) if enabled and own.dtype in _HALF else own) for own in parameters]
        self._hooks = [
            own.register_post_accumulate_grad_hook(partial(_move, master=master))  # type: ignore[no-untyped-call]
            for own, master in self.pairs
            if own is not master
        ]

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The tensors that the optimiser steps on."""
        return [master for _, master in self.pairs]

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Round the copies into the model's parameters."""
        copied = [(own, master) for own, master in self.pairs if own is not master]
        if copied:
            torch._foreach_copy_([own for own, _ in copied], [master for _, master in copied])

    def finish(self) -> None:
        """Nothing to do: the parameters follow every step."""

    def clip(self, max_norm: float) -> float:
        """Clip the gradients to this norm. Returns their norm before."""
        return float(nn.utils.clip_grad_norm_(self.parameters, max_norm))

    def state(self) -> list[Tensor] | None:
        """The copies, in order; None if there are none."""
        return [master.detach() for _, master in self.pairs] if self._hooks else None

    @torch.no_grad()
    def load_state(self, saved: Sequence[Tensor] | None) -> None:
        """Load what `state` returned; None (a checkpoint without copies) leaves them unchanged."""
        if saved is None or not self._hooks:
            return
        for (_, master), value in zip(self.pairs, saved, strict=True):
            master.copy_(value)


def _master(own: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(own.detach().float())


def _move(own: Tensor, *, master: nn.Parameter) -> None:
    """Add a new gradient to that of the copy and free it."""
    assert own.grad is not None
    if master.grad is None:
        master.grad = own.grad.float()
    else:
        master.grad.add_(own.grad)
    own.grad = None
