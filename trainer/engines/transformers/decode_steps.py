"""Decoding steps of fixed shapes over fixed buffers, which a GPU can replay as CUDA graphs.

A decoding step of a small model consists of several hundred kernels of a few microseconds each, and launching them from
Python takes longer than running them. A graph launches all of them at once, but needs the same shapes and addresses
every time: rows are padded to one of a few sizes, and the columns that attention reads to a multiple of `WIDTH_STEP`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from trainer.engines.transformers.kv_cache import KVCache

DecodeMode = Literal["ragged", "static", "graphs"]
"""ragged: only active rows and columns in use; static: padded to fixed shapes; graphs: static, replayed as graphs."""

WIDTH_STEP = 256
"""Columns that attention reads are padded to a multiple of this: reading them costs less than capturing more graphs."""

Forward = Callable[[Sequence[int], Tensor, Tensor, int], Tensor]
"""(slots, (n, 1) ids, (n, 1) positions, columns to read) → (n, 1, H) hidden states; writes keys and values."""

_log = logging.getLogger(__name__)


def default_mode(device: torch.device) -> DecodeMode:
    """Return the default: graphs on a GPU; on a CPU padding would only cost time."""
    return "graphs" if device.type == "cuda" else "ragged"


def padded_rows(active: int, rows: int) -> int:
    """Return the rows of a step with this many active ones, of `rows` in the cache: the next power of two.

    Fewer rows are hardly faster on a GPU, which spends its time reading the weights; every size is captured separately.
    """
    return min(1 << max(active - 1, 0).bit_length(), rows)


def padded_width(width: int, capacity: int) -> int:
    """Return the columns that the step reads, of `capacity` in the cache."""
    return min(-(-width // WIDTH_STEP) * WIDTH_STEP, capacity)


class StaticSteps:
    """Decoding steps of one session. A shape is captured when it is needed for the second time.

    Padding rows are slots of dialogues that are not being sampled: they write into their next free column, which the
    dialogue overwrites when it continues.

    Args:
        cache: cache of the session; graphs are dropped when its buffers grow.
        forward: one step over the cache.
        device: device of the model.
        graphs: whether to capture graphs; False: the same computation, launched kernel by kernel.
    Attributes:
        replays: number of replayed steps.
        failure: reason why graphs are no longer captured; empty if they are.
    """

    def __init__(self, cache: KVCache, forward: Forward, device: torch.device, *, graphs: bool) -> None:
        self.cache, self.forward, self.capturing = cache, forward, graphs
        self.replays, self.failure = 0, ""
        self._ids = torch.zeros(cache.rows, 1, dtype=torch.long, device=device)
        self._positions = torch.zeros_like(self._ids)
        self._lengths = torch.zeros(cache.rows, 1, dtype=torch.long, pin_memory=device.type == "cuda")
        self._captured: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._seen: set[tuple[int, int]] = set()
        self._capacity = cache.capacity
        self._pool = torch.cuda.graph_pool_handle() if graphs else None

    def run(self, tokens: Tensor) -> Tensor:
        """Append a token to each of the slots 0…n−1; the caller increments their lengths.

        Args:
            tokens: (n,) ids on the device.
        Returns: (n, H) hidden states, overwritten by the next step.
        """
        cache, active = self.cache, len(tokens)
        rows = padded_rows(active, cache.rows)
        width = padded_width(max(cache.length[:active]) + 1, cache.capacity)
        self._lengths[:rows, 0] = torch.tensor(cache.length[:rows])
        # The host's copy is not changed until the step is over: its tokens are read first.
        self._positions[:rows].copy_(self._lengths[:rows], non_blocking=True)
        self._ids[:active, 0].copy_(tokens)
        return self._step(rows, width)[:active, -1]

    def _step(self, rows: int, width: int) -> Tensor:
        if not self.capturing:
            return self._compute(rows, width)
        if self._capacity != self.cache.capacity:
            self._captured.clear()
            self._seen.clear()
            self._capacity = self.cache.capacity
            self._pool = torch.cuda.graph_pool_handle()  # the former pool ended with its last graph
        shape = rows, width
        if shape not in self._captured:
            if shape not in self._seen:
                self._seen.add(shape)
                return self._compute(rows, width)
            if not self._capture(shape):
                return self._compute(rows, width)
        graph, hidden = self._captured[shape]
        graph.replay()
        self.replays += 1
        return hidden

    def _compute(self, rows: int, width: int) -> Tensor:
        return self.forward(range(rows), self._ids[:rows], self._positions[:rows], width)

    def _capture(self, shape: tuple[int, int]) -> bool:
        """Capture the step of a shape. Returns whether that is possible: some architectures read values on the host."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may use the GPU meanwhile, to measure its memory.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                hidden = self._compute(*shape)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.capturing, self.failure = False, str(error).split("\n")[0]
            _restore_generator(self._ids.device)
            _log.warning("sampling goes on without CUDA graphs, more slowly: %s", self.failure)
            return False
        self._captured[shape] = graph, hidden
        return True


def _restore_generator(device: torch.device) -> None:
    """Re-enable random numbers on the GPU: a failed capture leaves its generator waiting for a graph."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generator = torch.cuda.default_generators[index]
        generator.graphsafe_set_state(generator.clone_state())
