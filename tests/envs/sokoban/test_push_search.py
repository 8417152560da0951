"""A* for several boxes: admissible bound, sound deadlock detection, playable solutions."""

import copy
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs.sokoban import astar_advisor, level_files
from envs.sokoban.astar_advisor import AStarAdvisor, AStarSearch
from envs.sokoban.grid import Grid
from envs.sokoban.levels import parse
from envs.sokoban.lower_bounds import FAR, assignment, bound
from envs.sokoban.moves import ACTIONS
from envs.sokoban.rooms import make_room
from envs.sokoban.solver import get_solver
from envs.support.rng import SeededRng, Stream
from tests.envs.sokoban.drawn import after_actions, brute_force, fewest, small_levels, start_of

BOXOBAN = Path(__file__).parents[4] / "shared" / "data" / "boxoban"
LARGE = """
#############
########## ##
#########   #
##########  #
#######.#   #
#######$.$  #
#######     #
#######. .  #
#  ####   . #
#@$  .. $#  #
# ## $#$  $ #
#           #
#############
"""


def searcher_of(level, **options):
    return AStarSearch(Grid(level.width, level.floor, level.targets), **options)


def lower_bound(searcher, state):
    """The search's lower bound of the pushes left; None if it proves that the position is lost."""
    facts, index = searcher.facts, searcher.room.index
    boxes = np.array([index[box] for box in state[1]], dtype=np.int16)
    least = bound(boxes, index[state[0]], facts.targets, facts.sides, facts.distances)
    return None if least >= FAR else int(least)


def pushed(level, state, pushes):
    """The state after pushes, each checked to be legal."""
    advisor = AStarAdvisor(searcher_of(level))
    for push in pushes:
        boxes = state[1]
        while state[1] == boxes:
            state = after_actions(level, state, [advisor._towards(state, push)[0]])
        assert push[0] not in state[1]
    return state


@given(
    st.integers(1, 5).flatmap(
        lambda size: st.lists(
            st.lists(st.one_of(st.integers(0, 30), st.just(FAR)), min_size=size, max_size=size),
            min_size=size,
            max_size=size,
        )
    )
)
def test_the_matching_is_the_cheapest_of_all(costs):
    least = min(sum(row[to] for row, to in zip(costs, way, strict=True)) for way in permutations(range(len(costs))))
    assert assignment(np.array(costs, dtype=np.int32)) == least


@given(small_levels(most_boxes=2))
def test_the_bound_is_never_above_the_pushes_needed_and_zero_only_at_success(level):
    searcher = searcher_of(level)
    for state in list(brute_force(level))[:40]:
        there = type(level)(level.width, level.height, level.floor, level.targets, frozenset(state[1]), state[0])
        needed, least = fewest(there, count_walks=False), lower_bound(searcher, state)
        if needed is not None:
            assert least is not None
            assert least <= needed
            assert (least == 0) == (set(state[1]) == level.targets)


@given(small_levels(), st.sampled_from([0, astar_advisor.PATTERN_STATES]), st.sampled_from([1, 5, 25, 100_000]))
def test_solvability_agrees_with_exhaustive_play_and_optimal_plans_are_minimal(level, pattern_states, budget):
    state = start_of(level)
    found = searcher_of(level, pattern_states=pattern_states).find(state, budget)
    needed = fewest(level, count_walks=False)
    assert found.expanded <= budget
    if found.solvable == "yes":
        assert set(pushed(level, state, found.pushes)[1]) == level.targets
        assert len(found.pushes) >= needed
        if found.fewest:
            assert len(found.pushes) == needed
    elif found.solvable == "no":
        assert needed is None
    else:
        assert found.expanded == budget
    if budget == 100_000:
        assert found.solvable != "unknown"
        assert found.fewest == (needed is not None)


@given(small_levels(), st.lists(st.sampled_from(ACTIONS), max_size=12), st.data())
def test_following_the_advice_after_any_detour_succeeds_in_the_planned_actions(level, astray, data):
    advisor = AStarAdvisor(searcher_of(level))
    state = start_of(level)
    for action in astray:
        advisor.hint(state)
        state = after_actions(level, state, [action])
    plan, hint = advisor.plan(state), advisor.hint(state)
    assert (hint.solvable == "yes") == (fewest_from(level, state) is not None)
    assert (hint.solvable == "no") == (hint.reason is not None)
    for _ in plan:
        state = after_actions(level, state, [data.draw(st.sampled_from(advisor.hint(state).actions))])
    if hint.solvable == "yes":
        assert set(state[1]) == level.targets
        assert advisor.hint(state).distance == 0


@pytest.mark.parametrize("seed", [70, 102, 113, 0, 1, 2])
def test_a_shorter_path_to_a_known_position_replaces_the_longer_one(seed):
    level = make_room(SeededRng(seed, Stream.START), 8, 3, 35, 70)
    for pattern_states in (0, astar_advisor.PATTERN_STATES):
        found = searcher_of(level, pattern_states=pattern_states).find(start_of(level))
        assert found.fewest
        assert len(found.pushes) == fewest(level, count_walks=False)


def fewest_from(level, state):
    return fewest(type(level)(level.width, level.height, level.floor, level.targets, frozenset(state[1]), state[0]))


def test_a_followed_plan_is_searched_once_and_a_detour_triggers_another_search(monkeypatch):
    level = parse(LARGE)
    searched = []
    search = AStarSearch.find
    monkeypatch.setattr(
        AStarSearch, "find", lambda self, state, *more: searched.append(state) or search(self, state, *more)
    )
    advisor, state = AStarAdvisor(searcher_of(level)), start_of(level)
    for action in advisor.plan(state):
        assert action in advisor.hint(state).actions
        state = after_actions(level, state, [action])
    assert set(state[1]) == level.targets
    assert len(searched) == 1
    state = start_of(level)
    wrong = next(action for action in ACTIONS if action not in advisor.hint(state).actions)
    advisor.hint(after_actions(level, state, [wrong]))
    assert len(searched) == 1, "a walk in the same part of the room leaves no plan"


def test_a_level_too_large_for_a_table_is_solved_by_search_and_played_in_the_environment():
    env = envs.make("Boxoban", {"max_steps": None})
    env.reset(options={"room": LARGE})
    assert isinstance(get_solver(env.level), AStarAdvisor)
    hint = env.hint()
    assert (hint.solvable, hint.distance) == ("yes", None)
    assert hint.actions
    for action in env.plan():
        _, _, terminated, _, info = env.step(action)
    assert terminated
    assert info["success"]


def test_a_copied_planner_keeps_its_plans_and_is_independent():
    level = parse(LARGE)
    advisor, state = AStarAdvisor(searcher_of(level)), start_of(level)
    plan = advisor.plan(state)
    other = copy.deepcopy(advisor)
    assert other.plan(state) == plan
    assert other.searcher is advisor.searcher
    assert advisor.fresh().plan(state) == plan


def test_beyond_its_budget_the_search_returns_unknown_but_detects_deadlocks():
    level = parse(LARGE)
    advisor = AStarAdvisor(searcher_of(level), budget=3)
    assert advisor.hint(start_of(level)).solvable == "unknown"
    assert advisor.plan(start_of(level)) == []
    cornered = parse(LARGE.replace("#           #", "#$          #").replace("#@$  ", "#@   "))
    assert advisor.hint(start_of(cornered)).reason == "a box is in a corner"


def test_after_a_timeout_the_search_returns_unknown_and_caches_nothing():
    level = parse(LARGE)
    searcher = searcher_of(level)
    assert searcher.find(start_of(level), seconds=0.0).solvable == "unknown"
    assert searcher.find(start_of(level)).solvable == "yes"


def test_a_growing_pool_finds_the_same_plan(monkeypatch):
    level = parse(LARGE)
    found = searcher_of(level, pattern_states=0).find(start_of(level))
    small = astar_advisor.new_pool
    monkeypatch.setattr(astar_advisor, "new_pool", lambda boxes, nodes=64: small(boxes, nodes))
    assert searcher_of(level, pattern_states=0).find(start_of(level)) == found
    assert found.expanded > 64, "a pool of 64 nodes was too small"


@pytest.mark.skipif(not BOXOBAN.exists(), reason=f"no Boxoban levels at {BOXOBAN}")
@pytest.mark.parametrize("name", ["hard_000", "medium_valid_000", "unfiltered_test_000"])
def test_boxoban_levels_are_solved_by_table_and_by_search_and_the_solutions_are_played(name):
    env = envs.make("Boxoban", {"max_steps": None})
    for text in level_files.read_levels(BOXOBAN / f"{name}.txt").texts[::50]:
        level, state = text.level, start_of(text.level)
        searcher = searcher_of(level)
        found = searcher.find(state)
        assert found.fewest
        env.reset(options={"room": text.rows})
        optimal = env.hint().distance
        for plan in (env.plan(), AStarAdvisor(searcher).plan(state)):
            assert len(plan) >= optimal
            env.reset(options={"room": text.rows})
            for action in plan:
                _, _, terminated, _, info = env.step(action)
            assert terminated
            assert info["success"]
        assert lower_bound(searcher, state) <= len(found.pushes)
