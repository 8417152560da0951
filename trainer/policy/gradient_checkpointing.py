"""Gradient checkpointing: layers that keep nothing of a forward pass but what entered them. Nothing is learned here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from trainer.policy.load import ModelError


def checkpoint_layers(module: nn.Module) -> int:
    """Make every decoder layer inside a module recompute its forward pass on the way back. Returns how many there are.

    transformers has a switch for this which wants the model in training mode, and so would switch dropout on.

    Raises:
        ModelError: the architecture has no such layers.
    """
    layers = [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not layers:
        raise ModelError(
            "optimizer.gradient_checkpointing: this architecture has no layers that can be recomputed: switch it off "
            "or lower optimizer.micro_batch_tokens"
        )
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)
    return len(layers)


def _recomputed(forward: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Nothing is kept anyway where no gradient is asked for: then it is computed as always."""
    if not torch.is_grad_enabled():
        return forward(*arguments, **named)
    return checkpoint(forward, *arguments, use_reentrant=False, **named)
