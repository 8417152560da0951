"""Seeds derived from a place in the run: fixed, distinct, without global state."""

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.seeds import Purpose, derive, number_of

places = st.tuples(
    st.integers(0, 2**32 - 1), st.sampled_from(Purpose), st.integers(1, 1000), st.integers(0, 100), st.integers(0, 100)
)


def test_seeds_are_the_same_on_every_machine():
    assert [derive(0), derive(0, Purpose.DYNAMICS, 1, 2, 3), derive(2**32 - 1, Purpose.UPDATE, 7, 0)] == [
        2968811710,
        4177209239,
        325204001,
    ]


@given(st.lists(places, min_size=2, max_size=40, unique=True))
def test_different_places_have_different_seeds(found):
    assert len({derive(*place) for place in found}) == len(found)


def test_no_two_trajectories_of_a_run_share_a_seed():
    seeds = {derive(0, Purpose.SAMPLING, i, g, n) for i in range(1, 21) for g in range(8) for n in range(16)}
    assert len(seeds) == 20 * 8 * 16


def test_deriving_a_seed_leaves_global_generators_unchanged():
    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    derive(1, 2, 3)
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


def test_the_numbers_of_purposes_never_change():
    assert [(purpose.name, purpose.value) for purpose in Purpose] == [
        ("INITIAL_STATE", 1),
        ("DYNAMICS", 2),
        ("SAMPLING", 3),
        ("UPDATE", 4),
        ("EVALUATION", 5),
        ("DEMONSTRATION", 6),
        ("CRITIC", 7),
        ("REWIND", 8),
        ("ADAPTER", 9),
        ("DIAGNOSTICS", 10),
        ("BRANCH", 11),
    ]


def test_the_number_of_a_text_never_changes():
    assert number_of("00001-g00-n00") == 582912685
