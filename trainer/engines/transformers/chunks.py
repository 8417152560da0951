"""Sampling in chunks of rows that fit into memory.

After an out-of-memory error the chunk size is halved and sampling continues: the tokens of every row are kept here and
read again, so no response is sampled twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from trainer.engines.sampler import SampledResponse, SamplingParams, SamplingSession, TokenListener
from trainer.engines.transformers.listeners import IndexedListener
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.memory.oom import OutOfMemoryError, empty_cache


class ChunkedSampler:
    """A `Sampler` that opens consecutive sessions of at most `rows` rows on another sampler.

    Args:
        sampler: samples each chunk.
        rows: maximum chunk size; None: all rows.
        notify: receives a message when chunks become smaller.
    """

    def __init__(
        self,
        sampler: TransformersSampler,
        rows: int | None = None,
        notify: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.sampler, self.rows, self.notify = sampler, rows, notify

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> ChunkedSession:
        return ChunkedSession(self, seeds, params, listener)

    def weights_updated(self, version: int = 0) -> None:
        self.sampler.weights_updated(version)

    def sleep(self) -> None:
        self.sampler.sleep()

    def wake_up(self) -> None:
        self.sampler.wake_up()

    def close(self) -> None:
        self.sampler.close()

    def shrink(self, size: int) -> None:
        """Halve the chunk size after a chunk of `size` rows ran out of memory. Raises OutOfMemoryError at 1."""
        if size == 1:
            raise OutOfMemoryError(
                "the GPU's memory ran out while a single trajectory was sampled: allow shorter responses "
                "(rollout.max_response_tokens) or fewer turns, or set policy.dtype to bfloat16"
            )
        self.rows = size // 2
        self.notify(
            f"The GPU's memory ran out while {size} trajectories were sampled at once: from now on {self.rows} are "
            "sampled at a time; no response is sampled twice. Fewer rollout.groups, a smaller rollout.group_size or "
            "shorter responses (rollout.max_response_tokens) need less."
        )


class ChunkedSession:
    """Dialogues sampled one chunk at a time. See `trainer.engines.sampler.SamplingSession`."""

    def __init__(
        self, sampler: ChunkedSampler, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None
    ) -> None:
        self.sampler, self.seeds, self.params, self.listener = sampler, list(seeds), params, listener
        self.tokens: list[list[int]] = [[] for _ in seeds]  # dialogue so far, by row
        self.turn = [0] * len(seeds)
        self.prompts: dict[int, list[int]] = {}  # open prompt, by row
        self.chunk: list[int] = []
        self.inner: SamplingSession | None = None

    def reset_row(self, row: int) -> None:
        self.tokens[row] = []
        if self.inner is not None and row in self.chunk:
            self.inner.reset_row(self.chunk.index(row))

    def append(self, row: int, ids: list[int]) -> None:
        self.prompts[row] = ids
        if self.inner is not None and row in self.chunk:
            self.inner.append(self.chunk.index(row), ids)

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        self.prompts |= prompts
        while self.prompts:
            self.chunk = sorted(self.prompts)[: self.sampler.rows]
            try:
                yield from self._sample_chunk()
                continue
            except torch.OutOfMemoryError:
                pass
            finally:
                self.inner = None
            empty_cache()
            self.sampler.shrink(len(self.chunk))

    def _sample_chunk(self) -> Iterator[tuple[int, SampledResponse]]:
        """Sample the rows of the current chunk until none of them has an open prompt."""
        chunk = self.chunk
        listener = IndexedListener(self.listener, chunk) if self.listener is not None else None
        self.inner = self.sampler.sampler.session(
            [self.seeds[row] for row in chunk], self.params, listener, [self.turn[row] for row in chunk]
        )
        dialogues = {index: self.tokens[row] + self.prompts[row] for index, row in enumerate(chunk)}
        for index, response in self.inner.generate(dialogues):
            row = chunk[index]
            self.tokens[row] += self.prompts.pop(row) + response.ids
            self.turn[row] += 1
            yield row, response
