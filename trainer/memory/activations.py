"""Activation memory of forward and backward passes, from tensor sizes and without torch.

Counted from the operations of Qwen2 and Llama layers in transformers; tests compare the counts with the tensors that
autograd saves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.policy.shapes import ModelShape

_NARROW, _WIDE = 2, 4


@dataclass(frozen=True)
class ActivationBytes:
    """Settings that determine the activation memory of a token.

    Attributes:
        width: bytes per weight, 2 (bfloat16) or 4 (float32).
        rank: of the LoRA adapters; 0 = none.
        scores: length of the rows whose attention scores are materialised; 0 = the kernel keeps none.
        checkpointed: whether only the input of each layer is kept.
        packed: whether rows are packed into one long row, which attention splits and joins again.
        read: keys kept per token: above 1 where a shared prefix is repeated for every row that continues it.
        repeated: whether keys of grouped heads are repeated for each head.
    """

    width: int
    rank: int = 0
    scores: int = 0
    checkpointed: bool = False
    packed: bool = False
    read: float = 1.0
    repeated: bool = False


def layer(shape: ModelShape, passing: ActivationBytes) -> int:
    """Bytes that one layer keeps per token.

    In float32 (norms compute in it): the inputs of norms. In the width of the weights: outputs of norms, inputs of
    linear layers, queries, keys, values, the attention output, and the MLP's gate, its activation, the other branch
    and their product. Packed rows keep the attention output twice: before and after the rows are joined. Frozen weights
    do not keep their input, but adapters do, in float32.
    """
    h, q, k, f, r, w = shape.hidden, shape.query, shape.key, shape.active_intermediate, passing.rank, passing.width
    attention, again = 2 * q + 2 * math.ceil(passing.read * (q if passing.repeated else k)), q * passing.packed
    if not r:
        wide, own = 2 * h, 4 * h + attention + again + 4 * f
    elif w == _WIDE:
        wide, own = 2 * h + 7 * r, 2 * h + attention + again + 4 * f
    else:
        wide, own = 7 * h + q + 7 * r + f, attention + 3 * f
    if shape.head_norms:
        wide, own = wide + q + k, own + q + k
    if passing.scores:
        wide, own = wide + shape.heads * passing.scores, own + 2 * q
    norms = 2 + (shape.heads + shape.kv_heads if shape.head_norms else 0)
    return _WIDE * (wide + shape.heads + norms) + w * own


def saved(shape: ModelShape, passing: ActivationBytes) -> int:
    """Bytes per token that all layers, the last norm and the input of the head keep until the backward pass."""
    ends = (_WIDE + 3 * passing.width) * shape.hidden
    each = shape.hidden * passing.width if passing.checkpointed else layer(shape, passing)
    return shape.layers * each + ends


def backward_transient(shape: ModelShape, passing: ActivationBytes) -> int:
    """Transient bytes per token of the backward pass through one layer.

    Gradients of its widest part and, with gradient checkpointing, its recomputed activations.
    """
    scores = 2 * _WIDE * shape.heads * passing.scores
    gradients = max(passing.width * (3 * shape.active_intermediate + 3 * shape.hidden), scores)
    return gradients + (layer(shape, passing) if passing.checkpointed else 0)


def forward_transient(shape: ModelShape, width: int) -> int:
    """Transient bytes per token of a forward pass without gradients."""
    return width * (3 * shape.active_intermediate + 4 * shape.hidden) + 2 * _WIDE * shape.hidden
