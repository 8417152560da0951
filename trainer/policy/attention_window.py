"""Attention windows of a model: the keys that its layers attend to, and layers other than attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class AttentionWindow:
    """Attention windows of a model's layers.

    Attributes:
        size: tokens that a windowed layer attends to, including the current one; None: no layer has a window.
        by_layer: whether windowed and other layers alternate: such a model takes one mask for each kind.
        others: kinds of layers other than attention over all or the last tokens, such as convolutions.
    """

    size: int | None
    by_layer: bool
    others: tuple[str, ...] = ()

    def masks(self, mask: Tensor, positions: Tensor) -> Tensor | dict[str, Tensor]:
        """Return the masks for the model's forward pass.

        Args:
            mask: (n, 1, q, width) additive, 0 for keys up to the query's position, −∞ for later ones.
            positions: (n, q) positions of the queries; keys are numbered from 0.
        """
        if self.size is None:
            return mask
        columns = torch.arange(mask.shape[-1], device=mask.device)
        windowed = mask.masked_fill(columns <= positions[:, None, :, None] - self.size, -torch.inf)
        return {FULL: mask, SLIDING: windowed} if self.by_layer else windowed


def attention_window(model: PreTrainedModel) -> AttentionWindow:
    """Return the windows in the model's configuration."""
    config = model.config.get_text_config()
    kinds = tuple(dict.fromkeys(getattr(config, "layer_types", None) or ()))
    size = getattr(config, "sliding_window", None)
    if kinds:
        size = size if SLIDING in kinds else None
    elif getattr(config, "use_sliding_window", True) is False:
        size = None
    others = tuple(kind for kind in kinds if kind not in (FULL, SLIDING))
    return AttentionWindow(None if size is None else int(size), SLIDING in kinds, others)


@contextmanager
def shortened_window(model: PreTrainedModel, size: int) -> Iterator[None]:
    """Shorten windows to `size` tokens inside the block, so that a few tokens are enough to check them."""
    config = model.config.get_text_config()
    original = getattr(config, "sliding_window", None)
    if original is None:
        yield
        return
    config.sliding_window = size
    try:
        yield
    finally:
        config.sliding_window = original
