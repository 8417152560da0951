"""Evenly spaced items of a list."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from webapp.core.spacing import evenly


@given(st.integers(1, 5000), st.integers(2, 400))
def test_the_first_and_the_last_item_are_among_evenly_spaced_ones(length: int, most: int) -> None:
    chosen = evenly(range(1, length + 1), most)
    assert (chosen[0], chosen[-1], len(chosen)) == (1, length, min(length, most))
    assert chosen == sorted(set(chosen))
    steps = [later - earlier for earlier, later in pairwise(chosen)]
    assert not steps or max(steps) - min(steps) <= 1
