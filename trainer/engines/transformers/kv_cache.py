"""KV cache of many dialogues: left-aligned rows in one buffer per layer, each written at its own position."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin


class _KVCacheLayer(CacheLayerMixin):
    """Keys and values of one layer, (rows, key-value heads, capacity, head dimension)."""

    def __init__(self, store: KVCache) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.store: KVCache = weakref.proxy(store)  # avoids a cycle: memory must be freed as soon as a session ends

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = self._empty(key_states)
        self.values = self._empty(value_states)
        self.is_initialized = True

    def _empty(self, like: Tensor) -> Tensor:
        heads, dim = like.shape[1], like.shape[3]
        return like.new_zeros(self.store.rows, heads, self.store.capacity, dim)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        if self.keys.shape[2] < self.store.capacity:
            missing = self.store.capacity - self.keys.shape[2]
            self.keys = torch.nn.functional.pad(self.keys, (0, 0, 0, missing))
            self.values = torch.nn.functional.pad(self.values, (0, 0, 0, missing))
        store = self.store
        slots, positions, width = store.slots, store.positions, store.width
        if key_states.shape[2] == 1:
            self.keys[slots, :, positions[:, 0]] = key_states[:, :, 0]
            self.values[slots, :, positions[:, 0]] = value_states[:, :, 0]
        else:
            self.keys[slots[:, None], :, positions] = key_states.transpose(1, 2)
            self.values[slots[:, None], :, positions] = value_states.transpose(1, 2)
        return self.keys[store.where, :, :width], self.values[store.where, :, :width]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.store.width, 0

    def get_seq_length(self) -> int:
        return self.store.width

    def get_max_length(self) -> int:
        return self.store.capacity


def swap_rows(buffers: Sequence[Tensor], a: int, b: int) -> None:
    """Exchange two whole rows in each of several buffers, with a few kernels for all buffers together."""
    first, second = [buffer[a] for buffer in buffers], [buffer[b] for buffer in buffers]
    contents = [torch.empty_like(row) for row in first]
    torch._foreach_copy_(contents, first)
    torch._foreach_copy_(first, second)
    torch._foreach_copy_(second, contents)


class KVCache:
    """Slots of the buffers, their rows and lengths, and the columns that the current forward pass writes."""

    def __init__(self, rows: int, layers: int) -> None:
        self.rows, self.capacity = rows, 0
        self.slot_of = list(range(rows))
        self.row_in = list(range(rows))
        self.length = [0] * rows  # by slot
        self.layers = [_KVCacheLayer(self) for _ in range(layers)]
        self.cache = Cache(layers=list(self.layers))
        self.width = 0
        self.positions = torch.zeros(0, 0, dtype=torch.long)
        self.slots = self.numbers = torch.arange(rows)
        self.where: slice | Tensor = slice(0, 0)

    @torch.inference_mode()
    def clear(self) -> None:
        """Empty all rows for another session. Contents are zeroed: even unattended values must be finite."""
        self.slot_of, self.row_in = list(range(self.rows)), list(range(self.rows))
        self.length = [0] * self.rows
        for buffer in self._buffers():
            buffer.zero_()

    @property
    def bytes(self) -> int:
        """Return the memory of the buffers."""
        return sum(buffer.nbytes for buffer in self._buffers())

    def _buffers(self) -> list[Tensor]:
        return [buffer for layer in self.layers for buffer in (layer.keys, layer.values) if buffer is not None]

    def aim(self, slots: Sequence[int], positions: Tensor, width: int) -> None:
        """Set the slots of the next forward pass, which writes at `positions` (n, q) and reads `width` columns.

        Contiguous slots are read in place, other slots are gathered first.
        """
        self.positions, self.width = positions, width
        first, last = slots[0], slots[-1] + 1
        if list(slots) == list(range(first, last)):
            self.numbers = self.numbers.to(positions.device)
            self.slots, self.where = self.numbers[first:last], slice(first, last)
        else:
            self.slots = self.where = torch.tensor(slots, device=positions.device)

    def reserve(self, columns: int) -> None:
        """Make room for rows of this many tokens. Buffers grow by at least half, at the next write."""
        if columns > self.capacity:
            self.capacity = max(columns, self.capacity + self.capacity // 2)

    def swap(self, a: int, b: int) -> None:
        """Exchange the contents of two slots."""
        if a == b:
            return
        used = max(self.length[a], self.length[b])
        buffers = self._buffers()
        if buffers and buffers[0].is_cuda:
            swap_rows(buffers, a, b)
        else:
            for buffer in buffers:
                contents = buffer[a, :, :used].clone()
                buffer[a, :, :used] = buffer[b, :, :used]
                buffer[b, :, :used] = contents
        self.length[a], self.length[b] = self.length[b], self.length[a]
        self.row_in[a], self.row_in[b] = self.row_in[b], self.row_in[a]
        self.slot_of[self.row_in[a]], self.slot_of[self.row_in[b]] = a, b

    def copy(self, source: int, targets: Sequence[int]) -> None:
        """Copy the contents of the source slot into the target slots."""
        used = self.length[source]
        for layer in self.layers:
            for buffer in (layer.keys, layer.values):
                assert buffer is not None
                buffer[torch.tensor(targets, device=buffer.device), :, :used] = buffer[source, :, :used]
        for slot in targets:
            self.length[slot] = used
