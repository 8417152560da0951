"""Packages with global randomness: a sequence of their own, and everyone else's untouched."""

import copy
import random

import numpy as np

from envs.support.global_random import OwnRandomness
from envs.support.rng import Stream


def draw(own: OwnRandomness) -> tuple[float, float]:
    with own.installed():
        return random.random(), float(np.random.random())


def test_the_sequence_follows_from_the_seed_and_continues() -> None:
    one, other = OwnRandomness(2**62, Stream.START), OwnRandomness(2**62, Stream.START)
    first = [draw(one) for _ in range(3)]
    random.seed(4)
    np.random.seed(4)
    assert [draw(other) for _ in range(3)] == first
    assert len(set(first)) == 3
    assert draw(OwnRandomness(2**62, Stream.DYNAMICS)) != first[0]


def test_the_generators_of_others_continue_as_if_nothing_had_happened() -> None:
    random.seed(1)
    np.random.seed(1)
    expected = [(random.random(), float(np.random.random())) for _ in range(2)]
    random.seed(1)
    np.random.seed(1)
    before = random.random(), float(np.random.random())
    draw(OwnRandomness(3, Stream.START))
    assert [before, (random.random(), float(np.random.random()))] == expected


def test_a_copy_continues_by_itself() -> None:
    own = OwnRandomness(3, Stream.START)
    ahead = copy.deepcopy(own)
    assert draw(ahead) == draw(own)
