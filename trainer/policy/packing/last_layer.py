"""A last decoder layer that computes only the tokens with a used last hidden state.

The layer needs only keys and values of the other tokens. In a dialogue these are the prompts and observations, more
than half of the tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.policy.packing.layout import PackedBatch, Targets
from trainer.policy.packing.segment_attention import attend

_ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")
_MARK = "restricts_last_layer"


def is_restricted(backbone: nn.Module) -> bool:
    """True if the last layer of a model takes `targets`."""
    return bool(getattr(backbone, _MARK, False))


def restrict(model: PreTrainedModel) -> bool:
    """Make the last layer of a model with packed rows take `targets` if its architecture is a known one.

    Returns whether it does.
    """
    backbone = cast(Any, model.base_model)
    if not is_restricted(backbone) and model.config.get_text_config().model_type in _ARCHITECTURES:
        layer = backbone.layers[-1]
        layer.forward = partial(_forward, layer, layer.forward)
        setattr(backbone, _MARK, True)
    return is_restricted(backbone)


def release(model: PreTrainedModel) -> None:
    """Undo `restrict`."""
    backbone = cast(Any, model.base_model)
    layer = backbone.layers[-1]
    layer.forward = layer.forward.args[1]
    delattr(backbone, _MARK)


def _forward(
    layer: Any,
    whole: Callable[..., Tensor],
    hidden_states: Tensor,
    *arguments: Any,
    targets: Targets | None = None,
    **named: Any,
) -> Tensor:
    """Run the layer's own forward pass, (1, M, H) → (1, M, H), or with targets compute (1, W, H) at their places."""
    if targets is None:
        return whole(hidden_states, *arguments, **named)
    return _at_targets(layer, hidden_states, targets, *named["position_embeddings"])


def _at_targets(layer: Any, hidden: Tensor, targets: Targets, cos: Tensor, sin: Tensor) -> Tensor:
    """Compute (1, M, H) → (1, W, H) at the targets; `cos` and `sin` are (1, M, D) of all positions."""
    attention, places = layer.self_attn, targets.places
    normed = layer.input_layernorm(hidden)

    def heads(values: Tensor) -> Tensor:
        return values.view(*values.shape[:2], -1, attention.head_dim)

    query = heads(attention.q_proj(PackedBatch.pick(normed, places)[None]))
    key, value = heads(attention.k_proj(normed)), heads(attention.v_proj(normed))
    if hasattr(attention, "q_norm"):
        query, key = attention.q_norm(query), attention.k_norm(key)
    query, key = _rotate(query, cos[:, places], sin[:, places]), _rotate(key, cos, sin)
    read = attend(targets, query, key, value, attention.scaling)
    residual = PackedBatch.pick(hidden, places)[None] + attention.o_proj(read.flatten(2))
    return cast(Tensor, residual + layer.mlp(layer.post_attention_layernorm(residual)))


def _rotate(values: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary position embedding to (1, n, heads, D) values; `cos` and `sin` are (1, n, D)."""
    first, second = values.chunk(2, dim=-1)
    return values * cos[:, :, None] + torch.cat((-second, first), dim=-1) * sin[:, :, None]
