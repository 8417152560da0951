"""Rubik's cube: turns, scrambles, shortest solutions, net and board."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from envs.puzzles.cube_search import CubeSolver, get_solver
from envs.puzzles.cube_turns import COLOURS, Cube, get_cube, inverse
from envs.puzzles.rubiks_cube import RubiksCube
from envs.support.rng import SeededRng, Stream

SIZES = [2, 3]
KEPT_PLACES = {2: 24 - 12, 3: 54 - 20}
"""Stickers that a face turn leaves in place, by size."""


def scrambled(size: int, seed: int, count: int) -> str:
    cube = get_cube(size)
    state = cube.solved
    for turn in cube.scramble(SeededRng(seed, Stream.START), count):
        state = cube.turn(state, turn)
    return state


states = st.builds(scrambled, st.sampled_from(SIZES), st.integers(0, 2**60), st.integers(1, 20))


def cube_with(state: str) -> Cube:
    return get_cube(2 if len(state) == 24 else 3)


@given(states, st.data())
def test_a_turn_has_order_four_and_its_inverse_undoes_it(state, data):
    cube = cube_with(state)
    turn = data.draw(st.sampled_from(cube.turns))
    once = cube.turn(state, turn)
    assert cube.turn(once, inverse(turn)) == state
    four = state
    for _ in range(4):
        four = cube.turn(four, turn)
    assert four == state
    three = cube.turn(cube.turn(once, turn), turn)
    assert three == cube.turn(state, inverse(turn))


@pytest.mark.parametrize("size", SIZES)
def test_a_turn_moves_the_stickers_of_one_layer(size):
    cube = get_cube(size)
    places = "".join(map(chr, range(100, 100 + 6 * size * size)))
    for turn in cube.turns:
        turned = cube.turn(places, turn)
        assert sorted(turned) == sorted(places)
        kept = sum(a == b for a, b in zip(places, turned, strict=True))
        assert kept == KEPT_PLACES[size], "the middle of a face of odd size turns on its place"


@pytest.mark.parametrize("size", SIZES)
def test_turns_are_those_of_the_standard_notation(size):
    """After R the right column of the front is on top; after U the top row of the front is on the left."""
    cube = get_cube(size)
    middle = size
    net = cube.net(cube.turn(cube.solved, "R"), ".")
    assert [row[2 * size - 1] for row in net] == ["G"] * size + ["Y"] * size + ["B"] * size
    assert all(row[3 * size] == "W" for row in net[size : 2 * size])
    top = cube.net(cube.turn(cube.solved, "U"), ".")[middle]
    assert top == "G" * size + "R" * size + "B" * size + "O" * size
    net = cube.net(cube.turn(cube.solved, "F"), ".")
    assert net[size - 1][size : 2 * size] == "O" * size
    assert net[size][2 * size] == "W"
    assert net[2 * size][size : 2 * size] == "R" * size
    assert net[size][size - 1] == "Y"


def test_a_well_known_sequence_has_its_order():
    """R U R' U' six times, and R U 105 times on the large cube, restore it."""
    for size, sequence, order in ((2, ("R", "U", "R'", "U'"), 6), (3, ("R", "U", "R'", "U'"), 6), (3, ("R", "U"), 105)):
        cube = get_cube(size)
        state, repeats = cube.solved, 0
        while repeats == 0 or state != cube.solved:
            for turn in sequence:
                state = cube.turn(state, turn)
            repeats += 1
        assert repeats == order


@given(states)
def test_every_state_has_equally_many_stickers_of_each_colour(state):
    assert set(Counter(state).values()) == {len(state) // 6}


@given(st.sampled_from(SIZES), st.integers(0, 2**60), st.integers(1, 20))
def test_a_scramble_leaves_the_cube_unsolved_and_turns_nothing_back(size, seed, count):
    cube = get_cube(size)
    turns = cube.scramble(SeededRng(seed, Stream.START), count)
    assert len(turns) == count
    assert all(other != inverse(one) for one, other in pairwise(turns))
    assert all(len(set(turns[at : at + 3])) > 1 for at in range(count - 2))
    assert scrambled(size, seed, count) != cube.solved


def test_scrambles_of_the_first_seeds_are_pinned():
    texts = [envs.make("RubiksCube", {"size": size}).reset(seed=seed)[0] for size in SIZES for seed in range(30)]
    assert hashlib.sha256("\n\n".join(texts).encode()).hexdigest()[:16] == "40ccdeffbb881442"


@pytest.mark.parametrize(("size", "numbers"), [(2, [1, 6, 27, 120, 534]), (3, [1, 12, 114, 1068])])
def test_the_numbers_of_states_by_distance_are_the_known_ones(size, numbers):
    solver = CubeSolver(get_cube(size))
    for _ in numbers[1:]:
        solver._grow()
    found = Counter(solver._distances.values())
    assert [found[distance] for distance in range(len(numbers))] == numbers


@given(st.sampled_from([(2, 14), (3, 6)]), st.integers(0, 2**60), st.data())
def test_every_advised_turn_is_one_turn_nearer(case, seed, data):
    size, longest = case
    env = RubiksCube(size=size, scramble=data.draw(st.integers(1, longest)))
    env.reset(seed=seed)
    distance = env.hint().distance
    assert 1 <= distance <= env.settings.scramble
    while distance:
        hint = env.hint()
        assert hint.distance == distance
        _, _, terminated, _, info = env.step(data.draw(st.sampled_from(hint.actions)))
        distance -= 1
    assert terminated
    assert info["success"]
    assert (env.hint().actions, env.hint().distance) == ([], 0)


@settings(max_examples=15)
@given(st.integers(0, 2**60))
def test_all_first_turns_of_shortest_solutions_are_advised_outside_of_the_table(seed):
    cube, solver = get_cube(2), get_solver(2)
    state = scrambled(2, seed, 10)
    found = solver.advice(state)
    after = {turn: solver.advice(cube.turn(state, turn)).distance for turn in cube.turns}
    assert found.distance == min(after.values()) + 1
    assert set(found.turns) == {turn for turn, distance in after.items() if distance == found.distance - 1}


def test_beyond_the_reach_the_advice_takes_turns_back():
    env = RubiksCube(size=3, scramble=12)
    env.reset(seed=1)
    assert get_solver(3).reach == 6
    assert (env.hint().distance, len(env.hint().actions)) == (None, 1)
    env.step("U")
    assert env.hint().actions == ["U'"]
    for _ in range(20):
        _, _, terminated, _, info = env.step(env.hint().actions[0])
        if terminated:
            break
    assert info["success"]


def test_rewards_of_a_game():
    env = RubiksCube()
    env.reset(options={"turns": "R U F'"})
    results = [env.step(turn)[1:3] for turn in ("f", "U", "u'", "U'", "R'")]
    assert results == [(-0.01, False)] * 4 + [(pytest.approx(0.99), True)]


@pytest.mark.parametrize("size", SIZES)
def test_text_and_board_are_the_unfolded_cube(size):
    env = RubiksCube(size=size)
    text, _ = env.reset(seed=5)
    board = env.board()
    assert board.rows == text.split("\n")
    assert [len(row) for row in board.rows] == [4 * size] * 3 * size
    assert text.count(".") == 6 * size * size
    assert {board.legend[colour].tone for colour in COLOURS} == {"white", "orange", "green", "red", "blue", "yellow"}
    assert board.legend["."].tone == "wall"
    solved = get_cube(size).net(get_cube(size).solved, ".")
    assert solved[0] == "." * size + "W" * size + "." * 2 * size
    assert solved[size] == "O" * size + "G" * size + "R" * size + "B" * size
    assert solved[-1] == "." * size + "Y" * size + "." * 2 * size


def test_size_and_scramble_decide_about_actions_and_budgets():
    assert envs.spec("RubiksCube").actions == ("U", "U'", "R", "R'", "F", "F'")
    assert len(envs.spec("RubiksCube", {"size": 3}).actions) == 12
    assert envs.spec("RubiksCube").max_actions == 10
    long = envs.spec("RubiksCube", {"scramble": 12})
    assert (long.max_actions, long.max_turns) == (25, 5)


@pytest.mark.parametrize("wrong", [{"size": 4}, {"size": 1}, {"scramble": 0}, {"scramble": 21}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        envs.make("RubiksCube", wrong)


@pytest.mark.parametrize(
    ("turns", "message"),
    [("R L", "'L' is no turn of a cube of size 2: use U, U', R"), ("R R'", "leave the cube solved")],
)
def test_faulty_turns_are_refused_with_the_reason(turns, message):
    with pytest.raises(ValueError, match=message):
        RubiksCube().reset(options={"turns": turns})
