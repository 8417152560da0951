"""A sampler that plays no more rows at once than fit into memory: the others wait for their wave.

Where the memory runs out after all, waves become half as large and go on where they were: what rows have read and said
is kept here as token ids, and is read again. How tokens are drawn is the wrapped sampler's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from trainer.engines.base import SampledResponse, SamplingParams, SamplingSession, TokenListener
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.memory.oom import OutOfMemoryError, empty_cache


class ChunkedSampler:
    """A `Sampler` that opens sessions of at most `rows` rows on another, one after the other.

    Args:
        sampler: who plays.
        rows: the most rows at once; None: all.
        tell: receives a sentence for people when waves become smaller.
    """

    def __init__(
        self, sampler: TransformersSampler, rows: int | None = None, tell: Callable[[str], None] = lambda message: None
    ) -> None:
        self.sampler, self.rows, self.tell = sampler, rows, tell

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> ChunkedSession:
        return ChunkedSession(self, seeds, params, listener)

    def weights_updated(self) -> None:
        self.sampler.weights_updated()

    def sleep(self) -> None:
        self.sampler.sleep()

    def wake_up(self) -> None:
        self.sampler.wake_up()

    def close(self) -> None:
        self.sampler.close()

    def halve(self, wave: int) -> None:
        """Play half as many rows at once as the wave that was too large. Raises NoRoomError for a wave of one."""
        if wave == 1:
            raise OutOfMemoryError(
                "the GPU's memory ran out while a single trajectory was played: allow shorter responses "
                "(rollout.max_response_tokens) or fewer turns, or set policy.dtype to bfloat16"
            )
        self.rows = wave // 2
        self.tell(
            f"The GPU's memory ran out while {wave} trajectories were played at once: from now on it is {self.rows} at "
            "a time, and nothing is played twice. Fewer rollout.groups, a smaller rollout.group_size or shorter "
            "responses (rollout.max_response_tokens) take less; "
            f"memory.max_concurrent_trajectories={self.rows} begins with that."
        )


class ChunkedSession:
    """Dialogues that are played a wave at a time. See `trainer.engines.base.SamplingSession`."""

    def __init__(
        self, sampler: ChunkedSampler, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None
    ) -> None:
        self.sampler, self.seeds, self.params, self.listener = sampler, list(seeds), params, listener
        self.held: list[list[int]] = [[] for _ in seeds]  # by row: all it has read and said
        self.turn = [0] * len(seeds)
        self.asked: dict[int, list[int]] = {}  # row → what it is to read before it answers
        self.wave: list[int] = []
        self.inner: SamplingSession | None = None

    def reset_row(self, row: int) -> None:
        self.held[row] = []
        if self.inner is not None and row in self.wave:
            self.inner.reset_row(self.wave.index(row))

    def append(self, row: int, ids: list[int]) -> None:
        self.asked[row] = ids
        if self.inner is not None and row in self.wave:
            self.inner.append(self.wave.index(row), ids)

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        self.asked |= prompts
        while self.asked:
            waiting = sorted(self.asked)
            self.wave = waiting[: self.sampler.rows]
            try:
                yield from self._play()
                continue
            except torch.OutOfMemoryError:
                pass
            finally:
                self.inner = None
            empty_cache()
            self.sampler.halve(len(self.wave))

    def _play(self) -> Iterator[tuple[int, SampledResponse]]:
        """The present wave, until nobody in it is asked any more."""
        wave = self.wave
        listener = _IndexedListener(self.listener, wave) if self.listener is not None else None
        self.inner = self.sampler.sampler.session(
            [self.seeds[row] for row in wave], self.params, listener, [self.turn[row] for row in wave]
        )
        for place, sampled in self.inner.generate({i: self.held[row] + self.asked[row] for i, row in enumerate(wave)}):
            row = wave[place]
            self.held[row] += self.asked.pop(row) + sampled.ids
            self.turn[row] += 1
            yield row, sampled


@dataclass
class _IndexedListener:
    """A listener to a wave, told of its rows by the numbers that they have outside."""

    listener: TokenListener
    wave: list[int]

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        place = {row: i for i, row in enumerate(self.wave)}
        return [place[row] for row in self.listener.select_rows([self.wave[i] for i in rows])]

    def on_tokens(self, row: int, ids: list[int]) -> None:
        self.listener.on_tokens(self.wave[row], ids)
