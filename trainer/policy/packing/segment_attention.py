"""Attention over packed rows; the other layers process rows end to end, without padding.

Attention splits the long row into its rows again and lets each attend to its prefix, which may be stored once for
several rows. It is a small share of the work if rows are short.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from trainer.policy.packing.layout import PackedBatch, Segments, Targets

_QUERY_CHUNK = {"cpu": 192}
"""Query tokens per call with a mask: scores of masked keys are computed in vain. PyTorch's CPU kernel works on blocks
of 64 queries from 192 on, and of 32 below."""
_DEFAULT_QUERY_CHUNK = 256
"""Query tokens per call on other devices."""


def attend(layout: PackedBatch | Targets, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Causal attention within each packed row, by its segments.

    Args:
        query: (1, M, heads, D), or (1, W, heads, D) at the places of targets.
        key, value: (1, M, key-value heads, D).
    Returns:
        The same shape as `query`.
    """
    outputs = [_attend(segments, query, key, value, scaling) for segments in layout.segments]
    return torch.cat(outputs).index_select(0, layout.back)[None]


def _attend(segments: Segments, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Compute (n · N, heads, D) outputs of the segments' tokens, including padding, from (1, …, heads, D) inputs."""
    number, wide = segments.queries.shape
    q = _gather(query, segments.queries)
    k, v = _gather(key, segments.seen), _gather(value, segments.seen)
    grouped = q.shape[1] != k.shape[1]
    if not segments.ahead and segments.columns is None:
        output = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped)
        return output.transpose(1, 2).flatten(0, 1)
    if grouped and q.is_cuda:
        # With a mask, the only GPU kernel for grouped heads is the one that materialises all scores.
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], dim=1) for part in (k, v))
        grouped = False
    mask, parts = segments.mask(q.dtype), []
    chunk = _QUERY_CHUNK.get(q.device.type, _DEFAULT_QUERY_CHUNK)
    for start in range(0, wide, chunk):
        stop = min(start + chunk, wide)
        part, end = slice(start, stop), segments.keys(stop)
        parts.append(
            scaled_dot_product_attention(
                q[:, :, part],
                k[:, :, :end],
                v[:, :, :end],
                attn_mask=mask[:, :, part, :end],
                scale=scaling,
                enable_gqa=grouped,
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2).reshape(number * wide, *query.shape[2:])


def _gather(values: Tensor, places: Tensor) -> Tensor:
    """Gather (1, M, heads, D) at (n, W) places into (n, heads, W, D)."""
    return PackedBatch.pick(values, places.flatten()).view(*places.shape, *values.shape[2:]).transpose(1, 2)
