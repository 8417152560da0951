"""Codes of the end of an attempt, which words of a search suggest them, and their migration."""

from __future__ import annotations

import pytest

from webapp.trajectories.end_reasons import END_REASONS, end_reason, suggested

LOST_AT = {"turn": 1, "action": 0, "reason": "a box is in a corner"}


@pytest.mark.parametrize(
    ("end", "success", "lost", "error", "code"),
    [
        ("terminated", True, None, None, "solved"),
        ("turns", False, LOST_AT, None, "box_corner"),
        ("turns", False, None, None, "out_of_turns"),
        ("actions", False, None, None, "out_of_actions"),
        ("truncated", False, None, None, "cut_off"),
        ("truncated", False, LOST_AT, "the simulator gave up", "environment_error"),
        ("interrupted", False, LOST_AT, None, "interrupted"),
        ("terminated", False, None, None, "ended"),
        ("terminated", None, None, None, "unknown"),
        ("turns", None, None, None, "out_of_turns"),
        ("truncated", None, None, "it crashed", "environment_error"),
        ("terminated", False, LOST_AT | {"reason": "checkmate"}, None, "lost"),
    ],
)
def test_an_end_has_one_code(
    end: str, success: bool | None, lost: dict[str, object] | None, error: str | None, code: str
) -> None:
    assert end_reason(end, success, lost, error) == code
    assert code in END_REASONS


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("corner", "box_corner"),
        ("fails in corners", "box_corner"),
        ('"fell in hole"', "hole"),
        ("wall", "box_wall"),
        ("Interrupted", "interrupted"),
    ],
)
def test_words_of_a_search_suggest_ways_to_end(text: str, code: str) -> None:
    assert code in suggested(text)


def test_common_words_suggest_nothing() -> None:
    assert suggested("push the box and 3,4") == []
