"""Decoding state of a session: KV cache, forward pass and captured graphs, kept for the next session if small.

Capturing a graph takes as long as ten to twenty replays, and a rollout needs a graph for every shape; the next rollout
has the same shapes.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from trainer.engines.transformers.decode_steps import DecodeMode, StaticSteps
from trainer.engines.transformers.kv_cache import KVCache
from trainer.policy.attention_window import attention_window

KEPT_MODES = {"graphs"}
"""Decoding modes for which buffers are kept: only graphs take long to create."""
KEPT_SHARE = 1 / 32
"""Largest share of the GPU's memory that a KV cache may occupy between two rollouts."""


class CachedForward:
    """Forward pass of a model over a KV cache: `trainer.engines.transformers.decode_steps.Forward`."""

    def __init__(self, model: PreTrainedModel, cache: KVCache) -> None:
        self.model, self.cache = model, cache
        self.window = attention_window(model)

    def __call__(self, slots: Sequence[int], ids: Tensor, positions: Tensor, width: int) -> Tensor:
        """Append (n, q) ids at `positions` to the rows in `slots` and attend to `width` columns; returns (n, q, H)."""
        self.cache.aim(slots, positions, width)
        # Additive mask: every layer would convert a boolean mask to this one.
        unread = torch.arange(width, device=positions.device) > positions[:, None, :, None]
        mask = torch.zeros(unread.shape, dtype=self.model.dtype, device=positions.device)
        output = self.model.base_model(
            input_ids=ids,
            attention_mask=self.window.masks(mask.masked_fill_(unread, -torch.inf), positions),
            position_ids=positions,
            past_key_values=self.cache.cache,
            use_cache=True,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden


class DecodeBuffers:
    """Cache, forward pass and, unless decoding is ragged, the steps of one session at a time.

    Args:
        rows: dialogues of the session.
        layers: layers of the model.
    """

    def __init__(self, model: PreTrainedModel, rows: int, layers: int, decoding: DecodeMode) -> None:
        self.cache = KVCache(rows, layers)
        self.forward = CachedForward(model, self.cache)
        self.decoding = decoding
        self.steps = (
            None
            if decoding == "ragged"
            else StaticSteps(self.cache, self.forward, model.device, graphs=decoding == "graphs")
        )
        self.addresses = _addresses(model)


class BufferPool:
    """Lends buffers to sessions; on a GPU the last session's buffers are reused if they fit the next one.

    Args:
        model: the policy, whose weights are updated in place.
        layers: layers of the model.
    """

    def __init__(self, model: PreTrainedModel, layers: int) -> None:
        self.model, self.layers = model, layers
        self._kept: tuple[DecodeBuffers, weakref.ref[object]] | None = None

    def lend(self, session: object, rows: int, decoding: DecodeMode) -> DecodeBuffers:
        """Return empty buffers for a session that has just been opened."""
        buffers = self._again(rows, decoding)
        if buffers is None:
            buffers = DecodeBuffers(self.model, rows, self.layers, decoding)
        else:
            buffers.cache.clear()
        if decoding in KEPT_MODES and self._idle():
            self._kept = buffers, weakref.ref(session)
        return buffers

    def trim(self) -> None:
        """Drop buffers that are too large to be kept until the next rollout."""
        if self._kept is not None and self._kept[0].cache.bytes > KEPT_SHARE * _memory(self.model.device):
            self._kept = None

    def _idle(self) -> bool:
        """True if no open session uses the kept buffers."""
        return self._kept is None or self._kept[1]() is None

    def _again(self, rows: int, decoding: DecodeMode) -> DecodeBuffers | None:
        """Return the kept buffers if they are free and fit; free buffers that do not fit are dropped."""
        if self._kept is None or not self._idle():
            return None
        buffers = self._kept[0]
        same = buffers.cache.rows, buffers.decoding, buffers.addresses
        if same == (rows, decoding, _addresses(self.model)):
            return buffers
        self._kept = None
        return None


def _addresses(model: PreTrainedModel) -> int:
    """Return a number that changes when weights move: graphs read the former addresses."""
    return hash(tuple(weight.data_ptr() for weight in model.parameters()))


def _memory(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
