"""Models that accept packed rows: their attention is replaced, and checked against padded rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.policy.load import ModelError
from trainer.policy.packing import last_layer
from trainer.policy.packing.grouped_attention import GROUPED_DEVICES, applies, attend_grouped
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.packing.segment_attention import attend
from trainer.policy.packing.shared_prefix import SharedPrefix

_NAME = "row_by_row"


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
        if applies(query, key, attention_mask):
            assert attention_mask is not None
            return attend_grouped(query, key, value, attention_mask, scaling), None
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    return attend(packed, q, k, v, scaling), None


AttentionInterface.register(_NAME, _row_by_row)
AttentionMaskInterface.register(_NAME, sdpa_mask)


def group_decoding(model: PreTrainedModel) -> None:
    """Make a model with PyTorch's attention compute single tokens with grouped heads where that pays off."""
    if (
        model.device.type in GROUPED_DEVICES
        and getattr(model, "_supports_attention_backend", False)
        and model.config._attn_implementation == "sdpa"
    ):
        model.config._attn_implementation = _NAME


def prepare_models(models: Sequence[PreTrainedModel], *, required: bool, optional: bool) -> bool:
    """Make models accept packed rows, for packing (`required`) or for shared prefixes (`optional`).

    Returns:
        Whether prefixes can be shared.
    Raises:
        ModelError: packing is required, and a model's attention cannot be computed row by row.
    """
    if required:
        for model in models:
            prepare(model)
    return optional and (required or all(map(prepared, models)))


def prepare(model: PreTrainedModel) -> None:
    """Make a model accept packed rows.

    Raises:
        ModelError: its attention cannot be computed row by row.
    """
    if not prepared(model):
        raise ModelError(
            "this architecture's attention cannot be computed row by row (it has a sliding window, or is not "
            f"replaceable): take packed out of {VARIANTS_VARIABLE}"
        )


def prepared(model: PreTrainedModel) -> bool:
    """Make a model accept packed rows if it can. Returns whether it does; its other outputs do not change."""
    config = model.config.get_text_config()
    windows = getattr(config, "use_sliding_window", bool(getattr(config, "sliding_window", None)))
    if not getattr(model, "_supports_attention_backend", False) or windows:
        return False
    original = model.config._attn_implementation
    model.config._attn_implementation = _NAME
    try:
        agrees = _agrees(model)
    except RuntimeError:  # the device has no kernel for these masks or shapes
        agrees = False
    if not agrees:
        model.config._attn_implementation = original
    return agrees


@torch.no_grad()
def _agrees(model: PreTrainedModel) -> bool:
    """True if packed and padded rows agree: they do not if other layers than attention mix tokens.

    If they agree, and the last layer can be restricted to some tokens, it will be.
    """
    ids = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 6, 0], [7, 8, 0, 0, 0]])
    attention = ids > 0
    packed = PackedBatch.of(attention, [[SharedPrefix((0, 1), 0, 2)]], mask=ids > 2, device=model.device)
    ids, attention = ids.to(model.device), attention.to(model.device)
    padded = model.base_model(input_ids=ids, use_cache=False).last_hidden_state.float()
    unpacked = packed.unpack(packed.compute_hidden(model.base_model, ids)).float()
    if not _close(unpacked[attention], padded[attention], model.dtype):
        return False
    if last_layer.restrict(model):
        assert packed.targets is not None
        expected = padded[:, :-1][ids[:, 1:] > 2]
        at_targets = packed.compute_hidden(model.base_model, ids, packed.targets)[0][packed.targets.index].float()
        if not _close(at_targets, expected, model.dtype):
            last_layer.release(model)
    return True


def _close(values: Tensor, expected: Tensor, dtype: torch.dtype) -> bool:
    return bool((values - expected).norm() <= _TOLERANCE[dtype] * expected.norm())


_TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
