"""Seeded random numbers, equal on every machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.support.rng import SeededRng, Stream, dynamics_rng


def test_the_first_words_of_a_seed_are_pinned():
    rng = SeededRng(7, Stream.START)
    assert [rng.below(1000) for _ in range(6)] == [12, 761, 950, 849, 254, 877]


def test_streams_of_one_seed_and_seeds_of_one_stream_differ():
    def first(seed, stream):
        rng = SeededRng(seed, stream)
        return [rng.below(10**6) for _ in range(4)]

    seen = [first(seed, stream) for seed in (0, 1, 2**40) for stream in Stream]
    assert len({tuple(numbers) for numbers in seen}) == len(seen)


@given(st.integers(0, 2**64), st.integers(1, 10**6))
def test_a_number_below_n_is_below_n(seed, count):
    rng = SeededRng(seed, Stream.START)
    assert all(0 <= rng.below(count) < count for _ in range(70))
    assert all(0 <= rng.uniform() < 1 for _ in range(70))


@given(st.integers(0, 2**32), st.lists(st.integers(), max_size=20))
def test_a_full_sample_is_a_permutation(seed, items):
    assert sorted(SeededRng(seed, Stream.START).sample(items, len(items))) == sorted(items)


def test_weights_are_followed():
    rng = SeededRng(3, Stream.START)
    drawn = [rng.weighted("abc", [1.0, 0.0, 3.0]) for _ in range(4000)]
    assert drawn.count("b") == 0
    assert drawn.count("c") / 4000 == pytest.approx(0.75, abs=0.03)


def test_dynamics_follow_from_the_seed_unless_they_have_their_own():
    def slips(seed, options):
        rng = dynamics_rng(seed, options)
        return [rng.below(3) for _ in range(40)]

    assert slips(5, {}) == slips(5, {"dynamics_seed": 5}) == slips(9, {"dynamics_seed": 5})
    assert slips(5, {}) != slips(5, {"dynamics_seed": 6})
