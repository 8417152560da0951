"""Advice about positions."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs.sokoban import levels
from envs.sokoban.exact import Solver
from envs.sokoban.moves import ACTIONS, move, steps
from envs.sokoban.solver import get_solver


def forward(level, state):
    """Fewest actions to success by plain breadth-first search, or None if unsolvable."""
    todo, seen = deque([(state, 0)]), {state}
    while todo:
        here, distance = todo.popleft()
        if set(here[1]) == level.targets:
            return distance
        for step in steps(level.width):
            after = move(level.floor, here, step)
            if after not in seen:
                seen.add(after)
                todo.append((after, distance + 1))
    return None


@given(seed=st.integers(0, 2**60), boxes=st.integers(1, 2), choices=st.lists(st.integers(0, 3), max_size=25))
def test_advice_agrees_with_an_exhaustive_search(seed, boxes, choices):
    env = envs.make("Sokoban", {"boxes": boxes})
    env.reset(seed=seed)
    level = env.level
    state = (level.player, tuple(sorted(level.boxes)))
    for choice in choices:
        state = move(level.floor, state, steps(level.width)[choice])
    advice, wanted = get_solver(level).hint(state), forward(level, state)
    assert advice.distance == wanted
    assert advice.solvable == ("no" if wanted is None else "yes")
    assert (advice.reason is None) == (advice.solvable == "yes")
    best = [
        name
        for name, step in zip(ACTIONS, steps(level.width), strict=True)
        if wanted and forward(level, move(level.floor, state, step)) == wanted - 1
    ]
    assert advice.actions == best


@given(seed=st.integers(0, 2**60), choices=st.lists(st.integers(0, 3), min_size=10, max_size=10))
def test_following_the_advice_comes_one_closer_with_every_action_and_succeeds(seed, choices):
    env = envs.make("Sokoban")
    env.reset(seed=seed)
    distance = env.hint().distance
    for choice in choices[:distance]:
        actions = env.hint().actions
        _, _, terminated, _, info = env.step(actions[choice % len(actions)])
        distance -= 1
        assert env.hint().distance == distance
    assert terminated
    assert info["success"]
    assert env.hint().actions == []


@pytest.mark.parametrize(
    ("room", "reason"),
    [
        ("######\n#X___#\n#_P__#\n#__O_#\n#____#\n######", "the box is in a corner"),
        ("######\n#__X_#\n#_P__#\n#__O_#\n#____#\n######", "the box is against a wall without a target"),
        ("#######\n#P#___#\n###_X_#\n#__O__#\n#_____#\n#######", "no sequence of pushes reaches the target"),
        ("#######\n#__XX_#\n#_P_O_#\n#___O_#\n#_____#\n#######", "a box is against a wall without a target"),
        ("########\n#_PXX_O#\n#__O___#\n#______#\n########", "two boxes block each other against a wall"),
        ("#######\n#X__X_#\n#_P_O_#\n#___O_#\n#_____#\n#######", "a box is in a corner"),
    ],
)
def test_a_lost_position_is_reported_with_its_reason(room, reason):
    env = envs.make("Sokoban")
    env.reset(options={"room": room})
    advice = env.hint()
    assert (advice.solvable, advice.reason, advice.actions, advice.distance) == ("no", reason, [], None)
    assert env.plan() == []


def test_a_plan_is_a_shortest_path():
    env = envs.make("Sokoban")
    for seed in range(30):
        env.reset(seed=seed)
        plan = env.plan()
        assert len(plan) == env.hint().distance
        for action in plan:
            _, _, terminated, _, _ = env.step(action)
        assert terminated


def test_beyond_its_budget_the_solver_returns_unknown_but_detects_corners():
    text = "########\n#P_____#\n#_X__X_#\n#______#\n#___O__#\n#__O___#\n#______#\n########"
    level = levels.parse(text)
    small = Solver(level.width, level.floor, level.targets, max_states=100)
    state = (level.player, tuple(sorted(level.boxes)))
    assert small.hint(state).solvable == "unknown"
    assert get_solver(level).hint(state).solvable == "yes"
    cornered = levels.parse(text.replace("#P____", "#PX___").replace("#_X__X", "#____X").replace("PX___", "XP___"))
    assert small.hint((cornered.player, tuple(sorted(cornered.boxes)))).reason == "a box is in a corner"


def test_results_within_the_budget_are_exact():
    env = envs.make("LargeSokoban")
    for seed in range(10):
        env.reset(seed=seed)
        level = env.level
        state = (level.player, tuple(sorted(level.boxes)))
        small = Solver(level.width, level.floor, level.targets, max_states=3000).hint(state)
        if small.solvable == "yes":
            assert small == env.hint()
