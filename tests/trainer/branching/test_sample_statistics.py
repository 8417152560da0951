"""Shares, falls and distances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.branching.sample_statistics import influence_of, influences_of, share_of, total_variation, values_of

counts = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1)


@given(counts, counts)
def test_the_distance_of_distributions_is_symmetric_and_within_its_bounds(one, other):
    distance = total_variation(one, other)
    assert distance == pytest.approx(total_variation(other, one))
    assert 0 <= distance <= 1 + 1e-12
    assert total_variation(one, {key: 3 * number for key, number in one.items()}) == pytest.approx(0)
    assert (distance == pytest.approx(1)) == (not one.keys() & other.keys())


def test_the_distance_is_the_share_of_samples_that_would_have_to_change():
    assert total_variation({"Up": 3, "Left": 1}, {"Up": 1, "Left": 1}) == pytest.approx(0.25)


def test_shares_have_wilson_intervals():
    share = share_of([True, False, False, False])
    assert (share.solved, share.samples, share.share) == (1, 4, 0.25)
    assert 0.04 < share.low < 0.05
    assert 0.69 < share.high < 0.71
    nothing = share_of([])
    assert (nothing.low, nothing.high) == (0, 1)


def outcomes(*solved, samples=4):
    return [[number < count for number in range(samples)] for count in solved]


def test_the_steepest_fall_decides():
    values = values_of(outcomes(4, 3, 0, 0), success=False)
    assert [value.fall for value in values.turns] == [0.25, 0.75, 0, 0]
    assert (values.decisive, values.outcome) == (1, False)


def test_the_last_turn_may_decide():
    assert values_of(outcomes(2, 4), success=False).decisive == 1
    assert values_of(outcomes(2, 4), success=True).decisive is None, "nothing was lost"
    assert values_of(outcomes(4, 3), success=None).turns[-1].fall == 0, "an unfinished attempt has no outcome"


def test_the_influence_is_the_larger_distance_of_the_exchanged_thoughts():
    turn = influence_of(
        2,
        {"own": ["Up", "Up"], "none": ["Up", "Left"], "other": ["Left", "Left"], "false": ["Up", "Up"]},
        {"other": "left", "false": "wrong"},
        (3, 1),
    )
    assert turn.distances == {"none": 0.5, "other": 1.0, "false": 0.0}
    assert (turn.influence, turn.follows_false_claims, turn.claims, turn.kept_claims) == (1.0, 0.0, 3, 1)
    bare = influence_of(0, {"own": ["Up"], "none": ["Up"]}, {})
    assert (bare.influence, bare.follows_false_claims) == (0.0, None)
    both = influences_of([turn, bare])
    assert (both.influence, both.follows_false_claims) == (0.5, 0.0)
    assert influences_of([]).influence is None
