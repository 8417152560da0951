"""Rows of different lengths end to end in one long row: no layer sees padding but attention. No loss is computed here.

Attention takes the rows apart again, each for itself, and pads them; it is a small share of the work where rows are
short. Everything else (projections, feed-forward layers, norms) is as large as the tokens that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import AttentionInterface

from trainer.policies import ModelError

_NAME = "row_by_row"


@dataclass(frozen=True)
class Packed:
    """Where the M tokens of B rows lie: `attention` (B, T) says where in the padded rows there are any."""

    attention: Tensor

    @property
    def positions(self) -> Tensor:
        """(1, M) each token's place in its own row."""
        return (self.attention.cumsum(1) - 1)[self.attention][None]

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, …) → (1, M, …)."""
        return values[self.attention][None]

    def unpack(self, values: Tensor) -> Tensor:
        """(1, M, …) → (B, T, …), 0 in the padding."""
        found = values.new_zeros(*self.attention.shape, *values.shape[2:])
        found[self.attention] = values[0]
        return found

    def hidden_of(self, backbone: nn.Module, ids: Tensor) -> Tensor:
        """(1, M, H) last hidden states of (B, T) ids, by the layers of a prepared model."""
        found: Tensor = backbone(
            input_ids=self.pack(ids), position_ids=self.positions, packed=self, use_cache=False
        ).last_hidden_state
        return found


def _row_by_row(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed: Packed | None = None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Causal attention within each packed row: (1, heads, M, D) → (1, M, heads, D). Other rows are taken as ever."""
    if packed is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    q, k, v = [packed.unpack(part.transpose(1, 2)).transpose(1, 2) for part in (query, key, value)]
    grouped = query.shape[1] != key.shape[1]
    found = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped)
    return packed.pack(found.transpose(1, 2)), None


AttentionInterface.register(_NAME, _row_by_row)


def prepare(model: PreTrainedModel) -> None:
    """Let a model take packed rows as well.

    Raises:
        ModelError: its attention cannot be taken apart row by row.
    """
    config = model.config.get_text_config()
    windows = getattr(config, "use_sliding_window", bool(getattr(config, "sliding_window", None)))
    if not getattr(model, "_supports_attention_backend", False) or windows:
        raise ModelError(
            "optimizer.packing: this architecture's attention cannot be taken apart row by row (it looks through a "
            "window, or is not replaceable): switch it off"
        )
    model.config._attn_implementation = _NAME
