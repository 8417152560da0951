"""Compilation of the token-wise parts of decoder layers: norms and the MLP.

Their many element-wise kernels become a few. Attention is not compiled: its shapes differ in every micro-batch, and
most of its time is one kernel anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.policy.load import ModelError

_ATTENTION = "self_attn"


def compile_layers(module: nn.Module) -> int:
    """Compile all parts of a module's decoder layers except attention, for passes with gradients.

    Compilation happens in the first update and takes up to a minute. Without gradients (sampling, scoring) the layers
    run as usual, because shapes differ in every call.

    Returns:
        The number of compiled parts.
    Raises:
        ModelError: the architecture has no such layers.
    """
    layers = [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]
    parts = [part for layer in layers for name, part in layer.named_children() if name != _ATTENTION]
    if not parts:
        raise ModelError(
            f"this architecture has no layers whose parts are known: take compiled out of {VARIANTS_VARIABLE}"
        )
    for part in parts:
        part.forward = partial(_with_gradients, part.forward, torch.compile(part.forward, dynamic=True))
    return len(parts)


def _with_gradients(usual: Callable[..., Any], compiled: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return (compiled if torch.is_grad_enabled() else usual)(*arguments, **named)
