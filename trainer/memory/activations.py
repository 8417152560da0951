"""What a forward pass keeps for the way back, and what passing through costs besides: bytes from sizes. No torch.

Counted from the operations that layers of Qwen2 and Llama are made of in transformers; tests compare the counts with
the tensors that autograd really saves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.policy.shapes import ModelShape

_NARROW, _WIDE = 2, 4


@dataclass(frozen=True)
class ActivationBytes:
    """How tokens go through the model.

    Attributes:
        width: bytes of a number of the weights, 2 (bfloat16) or 4 (float32).
        rank: of LoRA's adapters; 0 = none.
        scores: length of the rows whose attention scores are kept as a matrix; 0 = a kernel that keeps none.
        checkpointed: whether only what enters each layer is kept.
        packed: whether tokens lie in one long row, which attention takes apart and puts together again.
        read: keys that are kept for each token: above 1 where a common beginning is laid out for all that continue it.
        repeated: whether keys that heads share are written down for each of them.
    """

    width: int
    rank: int = 0
    scores: int = 0
    checkpointed: bool = False
    packed: bool = False
    read: float = 1.0
    repeated: bool = False


def layer(shape: ModelShape, passing: ActivationBytes) -> int:
    """Bytes that one layer keeps of each token.

    Kept are, in float32 (norms compute in it): what enters a norm; in the width of the weights: what a norm gives, what
    every linear layer reads, queries, keys, values, attention's output, and the MLP's gate, its activation, the other
    branch and their product. Packed rows keep attention's output twice: as attention gives it, and as the output layer
    reads it. Frozen weights keep nothing of their input, but adapters do, in float32.
    """
    h, q, k, f, r, w = shape.hidden, shape.query, shape.key, shape.intermediate, passing.rank, passing.width
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
    """Bytes of each token that all layers keep until the way back, with the last norm and what is read from it."""
    ends = (_WIDE + 3 * passing.width) * shape.hidden
    each = shape.hidden * passing.width if passing.checkpointed else layer(shape, passing)
    return shape.layers * each + ends


def backward_transient(shape: ModelShape, passing: ActivationBytes) -> int:
    """Bytes of each token that the way back through one layer holds for a moment.

    Gradients of its widest part, and where layers are computed a second time all that the layer keeps.
    """
    scores = 2 * _WIDE * shape.heads * passing.scores
    gradients = max(passing.width * (3 * shape.intermediate + 3 * shape.hidden), scores)
    return gradients + (layer(shape, passing) if passing.checkpointed else 0)


def forward_transient(shape: ModelShape, width: int) -> int:
    """Bytes of each token that a forward pass holds for a moment when nothing is kept for a way back."""
    return width * (3 * shape.intermediate + 4 * shape.hidden) + 2 * _WIDE * shape.hidden
