"""float32 copies of half-precision weights, which steps are taken on. What takes the steps is optimizers.py's business.

A step of 1e-6 on a weight of 0.1 is far below what bfloat16 can tell apart (4e-4): taken on the weight itself it would
be lost, every time. Gradients of micro-batches are summed in float32 too, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

_HALF = (torch.bfloat16, torch.float16)


class StepWeights(Protocol):
    """What an optimiser steps on, and the parameters that play and score in its place."""

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is stepped on."""

    def clip(self, most: float) -> float:
        """Scale the gradients down to this norm. Returns what it was."""

    def copy_to_model(self) -> None:
        """A step was taken: let what computes the next one follow."""

    def finish(self) -> None:
        """All steps of an update are taken: let what plays and scores follow."""

    def state(self) -> list[Tensor] | None:
        """What a checkpoint needs besides the parameters that play; None for nothing."""

    def load_state(self, saved: Sequence[Tensor] | None) -> None:
        """Take up what `state` gave."""


class MasterWeights:
    """What an optimiser steps on in the place of given parameters: a float32 copy of each that is of half precision.

    Parameters of full precision stand for themselves, so that for a float32 model nothing is copied and nothing
    changes. A gradient moves to its copy as soon as it is there; the half-precision one is given back at once.

    Args:
        parameters: trainable leaves, in the order in which an optimiser is to know them.
        enabled: False: every parameter stands for itself.
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
        """What is stepped on."""
        return [master for _, master in self.pairs]

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Round what the steps made of the copies into the parameters that they stand for."""
        for own, master in self.pairs:
            if own is not master:
                own.copy_(master)

    def finish(self) -> None:
        """All steps of an update are taken; the parameters have followed every one of them."""

    def clip(self, most: float) -> float:
        """Scale the gradients down to this norm. Returns what it was."""
        return float(nn.utils.clip_grad_norm_(self.parameters, most))

    def state(self) -> list[Tensor] | None:
        """The copies, in order; None where there are none."""
        return [master.detach() for _, master in self.pairs] if self._hooks else None

    @torch.no_grad()
    def load_state(self, saved: Sequence[Tensor] | None) -> None:
        """Take up what `state` gave; without it (a checkpoint from before there were copies) they begin as they are."""
        if saved is None or not self._hooks:
            return
        for (_, master), value in zip(self.pairs, saved, strict=True):
            master.copy_(value)


def _master(own: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(own.detach().float())


def _move(own: Tensor, *, master: nn.Parameter) -> None:
    """Add a new gradient to the copy's and free it."""
    assert own.grad is not None
    if master.grad is None:
        master.grad = own.grad.float()
    else:
        master.grad.add_(own.grad)
    own.grad = None
