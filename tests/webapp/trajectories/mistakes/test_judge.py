"""Marks and verdicts against searches of their own: breadth-first in Sokoban, all futures in FrozenLake."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs import registry
from envs.base import GridBoard
from tests.webapp.trajectories.scripted_attempt import BUDGETS, LOCKED, played, sokoban
from webapp.trajectories.mistakes.budgets import Limits
from webapp.trajectories.mistakes.judge import Mark, Verdict, find_marks, verdict
from webapp.trajectories.mistakes.steps import JudgedAction, judge_actions

MOVES = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}


def judge(
    data: dict[str, Any], environment: str = "Sokoban", limits: Limits = BUDGETS
) -> tuple[list[JudgedAction], list[Mark], Verdict | None]:
    steps = list(judge_actions(data, environment, limits))
    marks = find_marks(steps)
    return steps, marks, verdict(data, steps, marks, limits)


def distance(rows: tuple[str, ...]) -> int | None:
    """Fewest actions that solve a Sokoban board, by breadth-first search; None if nothing does."""
    cells = {(y, x): sign for y, row in enumerate(rows) for x, sign in enumerate(row)}
    walls = {cell for cell, sign in cells.items() if sign == "#"}
    targets = {cell for cell, sign in cells.items() if sign in ".*+"}
    player = next(cell for cell, sign in cells.items() if sign in "@+")
    start = (player, frozenset(cell for cell, sign in cells.items() if sign in "$*"))
    seen, layer, count = {start}, [start], 0
    while layer:
        if any(boxes == targets for _, boxes in layer):
            return count
        following = []
        for (y, x), boxes in layer:
            for dy, dx in MOVES.values():
                to, beyond = (y + dy, x + dx), (y + 2 * dy, x + 2 * dx)
                if to in walls or (to in boxes and (beyond in walls or beyond in boxes)):
                    continue
                state = (to, boxes - {to} | {beyond}) if to in boxes else (to, boxes)
                if state not in seen:
                    seen.add(state)
                    following.append(state)
        layer, count = following, count + 1
    return None


@given(seed=st.integers(0, 500), actions=st.lists(st.sampled_from(list(MOVES)), min_size=1, max_size=10))
def test_sokoban_marks_agree_with_a_breadth_first_search(seed: int, actions: list[str]) -> None:
    env = envs.make("Sokoban")
    env.reset(seed=seed)
    data = played(env, [actions[:5], actions[5:]])
    steps, marks, found = judge(data)
    marked = {(mark.turn, mark.action): mark for mark in marks}
    hopeless: list[JudgedAction] = []
    for number, step in enumerate(steps):
        before, after = distance(tuple(step.before["rows"])), distance(tuple(step.after["rows"]))
        left = 10 - number
        mark = marked.get((step.turn, step.action))
        possible = before is not None and before <= left
        still = after is not None and after <= left - 1
        if after is not None and before is not None and after < before:
            assert mark is None
        if (possible and not still) or (before is not None and after is None):
            hopeless.append(step)
            assert mark is not None
            assert mark.kind == "blunder" if possible else "mistake"
            assert mark.dead_end == (after is None)
            if possible:
                assert f"would have won {'at once' if before == 1 else f'in {before}'}." in mark.sentence
        elif mark is not None:
            assert still
            assert mark.kept > 0
    if data["success"]:
        assert found is None
    elif hopeless:
        assert found is not None
        assert (found.kind, found.turn, found.action) == ("mistake", hopeless[0].turn, hopeless[0].action)
    elif (last := distance(tuple((steps[-1].after if steps else data["board"])["rows"]))) is not None:
        assert found is not None
        assert found.sentence.startswith((f"Still solvable in {last} move", "Out of reach from the start"))


def test_the_room_of_the_pages_has_a_detour_and_a_lock() -> None:
    _, marks, found = judge(played(sokoban(), LOCKED))
    assert [(mark.glyph, mark.cells, mark.origin, mark.better) for mark in marks] == [
        ("?!", [[3, 3]], [2, 3], ["Left"]),
        ("??", [[3, 1]], [3, 3], ["Up"]),
    ]
    assert found == Verdict("mistake", 1, 2, "Turn 2: Left locked the box in a corner. Up would have won in 5.")


def lakes() -> st.SearchStrategy[list[str]]:
    """Boards of 3 by 3 with a player, a goal and up to four holes."""
    return st.permutations(["@", "G", "O", "O", " ", " ", " ", " ", " "]).map(
        lambda cells: ["".join(cells[start : start + 3]) for start in (0, 3, 6)]
    )


@given(rows=lakes(), left=st.integers(1, 8))
def test_chances_on_ice_agree_with_all_futures(rows: list[str], left: int) -> None:
    cells = {(y, x): sign for y, row in enumerate(rows) for x, sign in enumerate(row)}
    order = ["Left", "Down", "Right", "Up"]

    def step(cell: tuple[int, int], name: str) -> tuple[int, int]:
        to = (cell[0] + MOVES[name][0], cell[1] + MOVES[name][1])
        return to if to in cells else cell

    @cache
    def best(cell: tuple[int, int], more: int) -> float:
        if cells[cell] in "GO":
            return float(cells[cell] == "G")
        return max(expected(cell, name, more) for name in order) if more else 0.0

    def expected(cell: tuple[int, int], name: str, more: int) -> float:
        at = order.index(name)
        return sum(best(step(cell, order[(at + turn) % 4]), more - 1) for turn in (-1, 0, 1)) / 3

    player = next(cell for cell, sign in cells.items() if sign == "@")
    values = registry.action_values("FrozenLake", GridBoard(theme="frozen_lake", rows=rows), {}, left)
    assert values == pytest.approx({name: expected(player, name, left) for name in order})


def test_actions_without_chance_or_after_the_end_have_no_expectation() -> None:
    board = GridBoard(theme="frozen_lake", rows=["@ ", "OG"])
    assert registry.action_values("FrozenLake", board, {"slippery": False}, 5) is None
    assert registry.action_values("FrozenLake", GridBoard(theme="frozen_lake", rows=["  ", "XG"]), {}, 5) is None
    assert registry.action_values("FrozenLake", board, {"size": "huge"}, 5) is None
    assert registry.action_values("Sokoban", GridBoard(theme="sokoban", rows=["@$."]), {}, 5) is None
    assert registry.action_values("Nowhere", board, {}, 5) is None


def frozen(actions: list[str], seed: int) -> dict[str, Any]:
    env = envs.make("FrozenLake")
    env.reset(seed=seed, options={"map": "P_\nOG", "dynamics_seed": seed})
    return played(env, [actions])


@given(seed=st.integers(0, 200))
def test_a_slip_is_not_the_agents_mistake(seed: int) -> None:
    _, marks, found = judge(frozen(["Up"], seed), "FrozenLake")  # the best: it never slips into a hole
    assert not marks
    assert found is None or found.kind == "budget"
    steps, marks, found = judge(frozen(["Down"], seed), "FrozenLake")
    assert len(marks) == 1  # whatever happened then
    assert steps[0].kept == pytest.approx(marks[0].kept, abs=1e-4)


def test_other_environments_with_a_solver_are_judged_too() -> None:
    bandit = envs.make("Bandit")
    bandit.reset(seed=1)
    one = Limits(1, 1, 1)
    _, marks, found = judge(played(bandit, [["Phoenix"]]), "Bandit", one)
    assert [mark.glyph for mark in marks] == ["??"]
    assert found is not None
    assert found.sentence == "Turn 1: Phoenix pays less on average. Dragon was the better pull."
    countdown = envs.make("Countdown")
    countdown.reset(seed=1)
    _, _, found = judge(played(countdown, [["1 + 1"]]), "Countdown", one)
    assert found is not None
    assert found.sentence.startswith(
        "Turn 1: “1 + 1” was wrong: the answer does not equal the target. A correct answer:"
    )


def test_attempts_that_are_solved_played_or_interrupted_have_no_verdict() -> None:
    solved = played(sokoban(), [["Right", "Down", "Left", "Down", "Right"]])
    assert solved["success"]
    assert judge(solved)[1:] == ([], None)
    data = played(sokoban(), LOCKED)
    assert judge(data | {"success": None, "end": None})[2] is None
    assert judge(data | {"success": False, "end": "interrupted"})[2] is None
    for error in ({"broken_off": True}, {"error": "the environment failed"}):
        assert judge(data | {"success": False, "end": "truncated"} | error)[2] is None


def test_an_environment_without_a_solver_has_no_marks() -> None:
    data = played(sokoban(), LOCKED) | {"hint": None, "lost_at": None}
    for turn in data["turns"]:
        for record in turn["actions"]:
            record["hint"] = None
    assert judge(data)[1:] == ([], None)
