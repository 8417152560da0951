"""Comments on attempts."""

from __future__ import annotations

from typing import Any

import pytest

from webapp.trajectories.mistakes.commentary import commentary

GRID = {"kind": "grid", "theme": "sokoban", "rows": ["#####", "#@$.#", "#####"]}
LOCKED = {"kind": "mistake", "turn": 1, "action": 0, "sentence": "Turn 2: Down locked the box in a corner."}


def turn(number: int, actions: int, *claims: dict[str, Any]) -> dict[str, Any]:
    record = {"status": "executed"}
    return {
        "turn": number,
        "thought": "Box 5,3 and target\n5,4.",
        "actions": [record] * actions,
        "claims": list(claims),
    }


def wrong(start: int, end: int, actual: str | None) -> dict[str, Any]:
    return {"start": start, "end": end, "true": False, "kind": "box_position", "actual": actual}


def played(*turns: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"board": GRID, "hint": {"distance": 4}, "turns": turns, "success": False, "verdict": None} | facts


@pytest.mark.parametrize(
    "attempt, comment",
    [
        (played(turn(0, 4), success=True), "Solved in 4 moves, as few as possible."),
        (played(turn(0, 4), turn(1, 2), success=True), "Solved in 6 moves, 2 more than needed."),
        (played(turn(0, 4), success=True, hint=None), "Out of turns after 5 turns."),
        (played(turn(0, 3)), "Out of turns after 5 turns."),
        (played(turn(0, 3), turn(1, 1), verdict=LOCKED), LOCKED["sentence"]),
    ],
)
def test_the_verdict_comes_first_then_the_solvers_moves_then_the_outcome(attempt: dict[str, Any], comment: str) -> None:
    assert commentary(attempt, "out of turns after 5 turns") == comment


def test_the_false_claim_of_the_decisive_turn_is_quoted_with_the_truth() -> None:
    """Without one in that turn it is the first of the attempt; claims whose truth is not known are left out."""
    early = turn(0, 1, wrong(0, 7, "the box is at row 4, column 3"))
    late = turn(1, 1, wrong(12, 22, "it is at 5,5"))
    unknown = turn(1, 1, wrong(0, 7, None))
    assert commentary(played(early, late, verdict=LOCKED), "").endswith(
        "At turn 2 it thought “target 5,4”; in truth: it is at 5,5."
    )
    expected = "At turn 1 it thought “Box 5,3”; in truth: the box is at row 4, column 3."
    assert commentary(played(early, unknown, verdict=LOCKED), "").endswith(expected)
