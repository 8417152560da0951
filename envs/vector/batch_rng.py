"""Batched random numbers: each row has its own stream, equal to that of a `SeededRng`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envs.support.rng import BLOCK, SeededRng, Stream


class BatchRng:
    """One `SeededRng` per row, with its words in an array."""

    def __init__(self, count: int) -> None:
        self._rng: list[SeededRng | None] = [None] * count
        self._words = np.zeros((count, BLOCK), np.uint64)
        self._used = np.full(count, BLOCK, np.intp)

    def seed(self, rows: Sequence[int], seeds: Sequence[int], stream: Stream) -> None:
        """Restart the streams of these rows."""
        for row, seed in zip(rows, seeds, strict=True):
            rng = self._rng[row] = SeededRng(seed, stream)
            self._words[row] = rng.block()
            self._used[row] = 0

    def below(self, rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        """An integer from 0 to count − 1 per row (count up to 2048)."""
        return ((self._top_bits(rows) * np.uint64(count)) >> np.uint64(53)).astype(np.intp)

    def uniform(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """A number in [0, 1) per row."""
        return self._top_bits(rows).astype(np.float64) * 2.0**-53

    def _top_bits(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """The upper 53 bits of the next word of each row."""
        for row in rows[self._used[rows] == BLOCK].tolist():
            rng = self._rng[row]
            assert rng is not None, "the row was never seeded"
            self._words[row] = rng.block()
            self._used[row] = 0
        words = self._words[rows, self._used[rows]]
        self._used[rows] += 1
        return words >> np.uint64(11)
