"""Attention over packed rows: the other layers process rows end to end, without padding.

Attention splits the long row into its rows again and lets each attend to its own prefix, which may be stored once for
several. It is a small share of the work where rows are short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from trainer.policy.load import ModelError
from trainer.policy.packing.layout import PackedBatch, Segments
from trainer.policy.packing.shared_prefix import SharedPrefix

_NAME = "row_by_row"
_QUERY_CHUNK = 256
"""Query tokens per call where there is a mask: scores of masked keys are computed in vain."""


def _row_by_row(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed: PackedBatch | None = None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Causal attention within each packed row, (1, heads, M, D) → (1, M, heads, D); plain SDPA without `packed`."""
    if packed is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    outputs = [_attend(segments, q, k, v, scaling) for segments in packed.segments]
    return torch.cat(outputs).index_select(0, packed.back)[None], None


def _attend(segments: Segments, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """(1, M, heads, D) each → (n · N, heads, D) of the segments' tokens, padding included."""
    number, wide = segments.own.shape
    q = _gather(query, segments.own)
    k, v = _gather(key, segments.seen), _gather(value, segments.seen)
    grouped = q.shape[1] != k.shape[1]
    if not segments.ahead:
        output = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped)
        return output.transpose(1, 2).flatten(0, 1)
    if grouped and q.is_cuda:
        # With a mask, the only GPU kernel for grouped heads is the one that materialises all scores.
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], dim=1) for part in (k, v))
        grouped = False
    mask, parts = segments.mask(q.dtype), []
    for start in range(0, wide, _QUERY_CHUNK):
        part, end = slice(start, start + _QUERY_CHUNK), min(start + _QUERY_CHUNK, wide) + segments.ahead
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
    """(1, M, heads, D) → (n, heads, W, D) at (n, W) places."""
    return PackedBatch.pick(values, places.flatten()).view(*places.shape, *values.shape[2:]).transpose(1, 2)


AttentionInterface.register(_NAME, _row_by_row)
AttentionMaskInterface.register(_NAME, sdpa_mask)


def prepare_models(models: Sequence[PreTrainedModel], *, required: bool, optional: bool) -> bool:
    """Let models take packed rows, for packing (`required`) or for shared prefixes (`optional`).

    Returns:
        whether prefixes can be shared.
    Raises:
        ModelError: packing is required, and a model's attention cannot be computed row by row.
    """
    if required:
        for model in models:
            prepare(model)
    return optional and (required or all(map(prepared, models)))


def prepare(model: PreTrainedModel) -> None:
    """Let a model take packed rows.

    Raises:
        ModelError: its attention cannot be computed row by row.
    """
    if not prepared(model):
        raise ModelError(
            "optimizer.packing: this architecture's attention cannot be computed row by row (it has a sliding "
            "window, or is not replaceable): switch it off"
        )


def prepared(model: PreTrainedModel) -> bool:
    """Let a model take packed rows if it can. Returns whether it does; its other outputs stay the same."""
    config = model.config.get_text_config()
    windows = getattr(config, "use_sliding_window", bool(getattr(config, "sliding_window", None)))
    if not getattr(model, "_supports_attention_backend", False) or windows:
        return False
    before = model.config._attn_implementation
    model.config._attn_implementation = _NAME
    try:
        agrees = _agrees(model)
    except RuntimeError:  # the device has no kernel for these masks or shapes
        agrees = False
    if not agrees:
        model.config._attn_implementation = before
    return agrees


@torch.no_grad()
def _agrees(model: PreTrainedModel) -> bool:
    """Whether packed and padded rows agree: they do not if other layers than attention mix tokens."""
    ids = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 6, 0], [7, 8, 0, 0, 0]], device=model.device)
    attention = ids > 0
    packed = PackedBatch.of(attention, [[SharedPrefix((0, 1), 0, 2)]])
    padded = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[attention].float()
    unpacked = packed.unpack(packed.hidden_of(model.base_model, ids))[attention].float()
    return bool((padded - unpacked).norm() <= _TOLERANCE[model.dtype] * padded.norm())


_TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
