"""Random numbers that are equal on every machine and with every library version.

NumPy guarantees the streams of SeedSequence and PCG64 but not the results of Generator methods, so the few
distributions that environments need are computed from the raw integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
BLOCK = 64
"""Number of raw integers generated ahead."""


class Stream(IntEnum):
    """Purpose of a seed; streams of one seed are independent. The numbers are part of every pinned hash."""

    START = 1
    DYNAMICS = 2


class SeededRng:
    """Random numbers of one stream of one seed."""

    def __init__(self, seed: int, stream: Stream) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, int(stream)]))
        self._words: list[int] = []

    def _word(self) -> int:
        if not self._words:
            self._words = self._bits.random_raw(BLOCK).tolist()
        return self._words.pop()

    def below(self, count: int) -> int:
        """Return an integer from 0 to count − 1, uniform (to 2⁻⁵³)."""
        return ((self._word() >> 11) * count) >> 53

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return (self._word() >> 11) * 2.0**-53

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items, uniformly."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """Return one of the items, with probability proportional to its weight."""
        left = self.uniform() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            left -= weight
            if left < 0:
                return item
        return items[-1]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items, in random order."""
        pool = list(items)
        return [pool.pop(self.below(len(pool))) for _ in range(count)]


def dynamics_rng(seed: int, options: dict[str, Any]) -> SeededRng:
    """Return random numbers for the dynamics, seeded by the option `dynamics_seed`, else by the seed."""
    chosen = options.get("dynamics_seed")
    return SeededRng(seed if chosen is None else int(chosen), Stream.DYNAMICS)
