"""Attention of one query token per row for models with key-value heads that are shared by query heads.

With a mask, transformers repeats keys and values for every query head. While sampling, that is the whole cache, written
and read again in every layer for every token: several times the traffic of the attention itself.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

GROUPED_DEVICES = {"cuda"}
"""Devices on which this is faster than repeating. A CPU's kernel supports grouped heads directly."""


def applies(query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """True for single query tokens with grouped heads and a mask, on a device where it pays off."""
    return (
        query.device.type in GROUPED_DEVICES
        and query.shape[2] == 1
        and query.shape[1] > key.shape[1]
        and mask is not None
        and mask.shape[1] == 1
    )


def attend_grouped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None) -> Tensor:
    """Compute attention with the query heads of a key-value head as the kernel's queries.

    Args:
        query: (n, heads, 1, D).
        key, value: (n, key-value heads, W, D).
        mask: (n, 1, 1, W) additive.
    Returns:
        (n, 1, heads, D).
    """
    rows, heads, _, size = query.shape
    groups = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    read = scaled_dot_product_attention(
        groups, key, value, attn_mask=mask.expand(-1, -1, groups.shape[2], -1), scale=scaling
    )
    return read.reshape(rows, 1, heads, size)
