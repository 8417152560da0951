"""Edit scripts: what they keep is in both sequences, and their work is limited."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.trajectories.edit_script import Steps, TooDifferent, matching_blocks

LETTERS = st.lists(st.integers(0, 3), max_size=30)


def longest_common_subsequence(one: list[int], other: list[int]) -> int:
    row = [0] * (len(other) + 1)
    for item in one:
        above = row[:]
        for column, second in enumerate(other):
            row[column + 1] = above[column] + 1 if item == second else max(above[column + 1], row[column])
    return row[-1]


@given(LETTERS, LETTERS)
def test_blocks_are_equal_in_order_and_as_long_as_possible(one: list[int], other: list[int]) -> None:
    x = y = kept = 0
    for start, second, length in matching_blocks(one, other, Steps(100_000)):
        assert start >= x
        assert second >= y
        assert length > 0
        assert one[start : start + length] == other[second : second + length]
        x, y, kept = start + length, second + length, kept + length
    assert x <= len(one)
    assert y <= len(other)
    assert kept == longest_common_subsequence(one, other)


def test_nearly_equal_sequences_take_few_steps() -> None:
    one = list(range(5000))
    other = [*one[:1000], -1, *one[1000:4000], -2, *one[4001:]]
    steps = Steps(20_000)
    assert sum(length for _, _, length in matching_blocks(one, other, steps)) == 4999
    assert steps.left > 10_000


def test_repetitive_sequences_end_at_the_limit() -> None:
    one, other = [0, 1] * 749, [1, 0, 0] * 499
    outer = Steps(500_000)
    steps = outer.at_most(100_000)
    with pytest.raises(TooDifferent):
        matching_blocks(one, other, steps)
    assert steps.left < 0
    assert outer.left > 395_000  # one point of the table beyond the limit, not a whole comparison


def test_a_part_of_the_steps_is_taken_from_the_whole() -> None:
    outer = Steps(10)
    outer.at_most(6).take(6)
    assert outer.left == 4
    with pytest.raises(TooDifferent):
        outer.at_most(6).take(5)
