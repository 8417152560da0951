"""Seeds of all random generators of a run, derived from its seed; no generator state is shared."""

from __future__ import annotations

import hashlib
from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """Purpose of a seed. The numbers make runs reproducible: never renumber them."""

    INITIAL_STATE = 1
    DYNAMICS = 2
    SAMPLING = 3
    UPDATE = 4
    EVALUATION = 5
    DEMONSTRATION = 6
    CRITIC = 7
    REWIND = 8
    ADAPTER = 9
    DIAGNOSTICS = 10
    BRANCH = 11


def derive(*path: int) -> int:
    """A 32-bit seed for a place in the run, e.g. derive(run_seed, Purpose.DYNAMICS, iteration, group, member).

    Identical on every machine and in every process and version, as numpy's SeedSequence guarantees.
    """
    return int(np.random.SeedSequence(list(path)).generate_state(1)[0])


def number_of(text: str) -> int:
    """A 32-bit number of a text such as the id of a trajectory, as a part of a path."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
