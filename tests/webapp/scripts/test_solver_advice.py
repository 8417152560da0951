"""The solver's words about a position, without a browser."""

from __future__ import annotations

from typing import Any

import pytest

import envs
from tests.webapp.javascript import evaluate

GRID = {"kind": "grid", "theme": "sokoban", "rows": ["#@$.#"]}


def action(name: str, hint: dict[str, Any] | None, status: str = "executed") -> dict[str, Any]:
    return {"text": name, "name": name, "status": status, "reward": 0, "board": GRID, "hint": hint}


def trajectory(actions: list[dict[str, Any]], hint: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    turns = [{"turn": 0, "reward": 0, "actions": actions}]
    return {"board": GRID, "hint": hint, "turns": turns, "success": None, **more}


def advice(data: dict[str, Any], index: int) -> str:
    module = "player/positions.js"
    steps = evaluate(module, "positionsOf(data)", data)
    return str(
        evaluate("player/solver_advice.js", "advice(data.t, data.s, data.i)", {"t": data, "s": steps, "i": index})
    )


def far(distance: int, *best: str) -> dict[str, Any]:
    return {"distance": distance, "actions": list(best), "solvable": "yes"}


SOLVED = trajectory(
    [
        action("Left", far(3, "Up")),
        action("Jump", None, "illegal"),
        action("Up", far(2, "Up", "Left")),
        action("Up", far(1, "Up")),
        action("Up", far(0)),
    ],
    far(2, "Up"),
    success=True,
)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (0, "Best play: 2 actions to go, next Up. Optimal from the start: 2 actions; this attempt used 4."),
        (1, "Best play: 3 actions to go, next Up. Optimal from here: 3 actions, as in this attempt."),
        (3, "Best play: 2 actions to go, next Up or Left. Optimal from here: 2 actions, as in this attempt."),
        (5, "Solved."),
    ],
)
def test_the_best_play_is_compared_with_the_actions_taken(index: int, words: str) -> None:
    assert advice(SOLVED, index) == words


def test_a_failed_trajectory_is_reported_and_a_running_one_is_not_compared() -> None:
    failed = trajectory([action("Left", far(3, "Up"))], far(2, "Up"), success=False)
    assert advice(failed, 0).endswith("Optimal from the start: 2 actions; this attempt used 1 and did not solve it.")
    assert advice(failed | {"success": None}, 0) == "Best play: 2 actions to go, next Up."


def test_a_losing_move_is_reported_with_its_reason() -> None:
    lost = trajectory(
        [action("Left", far(3, "Up")), action("Up", {"solvable": "no"}), action("Up", {"solvable": "no"})],
        far(2, "Up"),
        success=False,
        lost_at={"turn": 0, "action": 1, "reason": "the box is in a corner"},
    )
    assert advice(lost, 2) == advice(lost, 3) == "Lost since turn 1, action 2: the box is in a corner."
    assert advice(lost, 1).startswith("Best play: 3 actions to go")


def test_random_dynamics_show_a_probability_and_unknown_ones_a_reason() -> None:
    lake = trajectory([], {"value": 0.743, "actions": ["Down"]})
    assert advice(lake, 0) == "Best play wins 74.3% of the time from here, next Down."
    assert advice(trajectory([], {"solvable": "unknown"}), 0) == "No solver advice: its search budget was exceeded."
    assert advice(trajectory([], None), 0) == ""


def test_a_text_environment_reports_a_right_answer() -> None:
    question = trajectory([], {"distance": 1, "actions": ["23 + 1 + 18"]}) | {"board": {"kind": "text", "text": "42"}}
    assert advice(question, 0) == "A correct answer: 23 + 1 + 18."


def test_a_call_of_a_tool_before_the_answer_is_the_next_action() -> None:
    hint = {"distance": 2, "actions": ["calculator(6 * 7)"]}
    question = trajectory([], hint) | {"board": {"kind": "text", "text": "What is 6 * 7?"}}
    assert advice(question, 0).startswith("Best play: 2 actions to go, next calculator(6 * 7).")


@pytest.mark.parametrize(
    ("best", "after"),
    [
        (True, "The best arm was pulled: Dragon, which pays 0.25 points on average."),
        (False, "Not the best arm. The best one was Dragon, which pays 0.25 points on average."),
    ],
)
def test_a_bandit_reports_the_best_arm_and_its_value(best: bool, after: str) -> None:
    env = envs.make("Bandit")
    env.reset(seed=3)
    board, hint = env.board().model_dump(), env.hint().model_dump()  # type: ignore[union-attr]
    wanted = hint["actions"][0]
    env.step(wanted if best else next(name for name in env.env_spec.actions if name != wanted))
    pull = action(wanted, env.hint().model_dump()) | {"board": env.board().model_dump()}  # type: ignore[union-attr]
    data = trajectory([pull], hint) | {"board": board}
    expected = after.replace("Dragon", wanted).replace("0.25", f"{hint['value']:.2f}")
    assert advice(data, 0) == f"Best arm: {wanted}, which pays {hint['value']:.2f} points on average."
    assert advice(data, 1) == expected
