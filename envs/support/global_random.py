"""Makes packages that draw from Python's and NumPy's global generators deterministic, without affecting other users."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from envs.support.rng import SeededRng, Stream


class OwnRandomness:
    """State of the global generators for one environment.

    Args:
        seed, stream: an independent sequence.
    """

    def __init__(self, seed: int, stream: Stream) -> None:
        rng = SeededRng(seed, stream)
        self._python: Any = random.Random(rng.below(2**53)).getstate()
        self._numpy: Any = np.random.RandomState(rng.below(2**32)).get_state()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the global generators continue this sequence within the block, and their earlier sequence afterwards."""
        python, numpy = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()
            random.setstate(python)
            np.random.set_state(numpy)
