"""Tables of whole rooms: exact like plain search, and equal to reverse play in plain Python."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.sokoban.exact import Solver, layers
from envs.sokoban.exhaustive import ExhaustiveTable, TableSolver, binomials, list_combinations
from envs.sokoban.grid import Grid
from envs.sokoban.levels import parse
from envs.sokoban.moves import ACTIONS
from envs.sokoban.solver import get_solver
from tests.envs.sokoban.drawn import after_actions, fewest, small_levels, start_of


def room_of(level):
    return Grid(level.width, level.floor, level.targets)


@given(small_levels(), st.lists(st.sampled_from(ACTIONS), max_size=10))
def test_table_advice_equals_plain_reverse_play_and_plain_search(level, actions):
    table = TableSolver(room_of(level))
    plain = Solver(level.width, level.floor, level.targets, 10**6)
    state = after_actions(level, start_of(level), actions)
    assert table.hint(state) == plain.hint(state)
    assert table.plan(state) == plain.plan(state)
    assert table.hint(start_of(level)).distance == fewest(level)


@given(small_levels(), st.integers(0, 12))
def test_a_table_that_stops_at_a_layer_ends_with_exactly_that_layer(level, stop):
    every = list(layers(level.width, level.floor, level.targets, 10**6))
    table = ExhaustiveTable(room_of(level), len(level.boxes), stop=stop)
    assert table.last_layer() == (every[stop] if stop < len(every) else [])
    assert (table.depth == stop) == (stop <= len(every))


@given(st.integers(1, 9), st.integers(1, 5))
def test_choices_are_numbered_without_gaps(count, size):
    if size > count:
        return
    rows = list_combinations(count, size, comb(count, size))
    weights = binomials(count, size)
    ranks = [sum(int(weights[value, place]) for place, value in enumerate(row)) for row in rows.tolist()]
    assert ranks == list(range(comb(count, size)))
    assert (np.diff(rows, axis=1) > 0).all()


@given(small_levels(), st.data())
def test_every_best_action_comes_one_closer(level, data):
    solver = TableSolver(room_of(level))
    state = start_of(level)
    hint = solver.hint(state)
    while hint.actions:
        state = after_actions(level, state, [data.draw(st.sampled_from(hint.actions))])
        after = solver.hint(state)
        assert after.distance == hint.distance - 1
        hint = after
    assert (hint.solvable == "no") or set(state[1]) == level.targets


def test_rooms_too_large_for_plain_search_get_a_table_and_exact_advice():
    level = parse("##########\n#@       #\n# $ $    #\n#    $   #\n# $      #\n#      ..#\n#      ..#\n##########")
    advisor = get_solver(level)
    assert isinstance(advisor, TableSolver)
    plan = advisor.plan(start_of(level))
    assert len(plan) == advisor.hint(start_of(level)).distance
    assert set(after_actions(level, start_of(level), plan)[1]) == level.targets


@pytest.mark.parametrize("text", ["######\n#@$ .#\n######", "#######\n#@ $*.#\n#######"])
def test_corridors_with_few_states_fit_too(text):
    level = parse(text)
    assert TableSolver(room_of(level)).hint(start_of(level)).distance == fewest(level)
