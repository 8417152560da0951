"""Seeds of everything random in a run, derived from the run's seed; no generator's state is kept or shared."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a seed is for. The numbers are part of what makes runs reproducible: never renumber."""

    INITIAL_STATE = 1
    DYNAMICS = 2
    SAMPLING = 3
    UPDATE = 4
    EVALUATION = 5
    DEMONSTRATION = 6
    CRITIC = 7
    REWIND = 8
    ADAPTER = 9


def derive(*path: int) -> int:
    """A 32-bit seed for a place in the run, e.g. derive(run_seed, Purpose.DYNAMICS, iteration, group, member).

    The same on every machine, process and version (numpy's SeedSequence promises it).
    """
    return int(np.random.SeedSequence(list(path)).generate_state(1)[0])
