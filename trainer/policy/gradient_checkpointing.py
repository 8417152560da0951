"""Gradient checkpointing of decoder layers: only their inputs are kept for the backward pass."""

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
    """Make every decoder layer of a module recompute its activations in the backward pass. Returns their number.

    The switch of transformers requires training mode, which would also enable dropout.

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
    """Recompute the layer; without gradients nothing is kept anyway, and it runs as usual."""
    if not torch.is_grad_enabled():
        return forward(*arguments, **named)
    return checkpoint(forward, *arguments, use_reentrant=False, **named)
