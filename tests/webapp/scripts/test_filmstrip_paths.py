"""Paths of the filmstrip, without a browser."""

from __future__ import annotations

from typing import Any

from tests.webapp.javascript import evaluate


def step(player: list[int] | None, push: list[list[int]] | None = None) -> dict[str, Any]:
    return {"board": {}, "player": player, "push": push}


STEPS = [step([1, 1]), step([2, 1], [[2, 1], [3, 1]]), step([2, 1]), step([2, 2]), step(None)]


def test_the_path_grows_with_the_steps_and_ignores_standing_still() -> None:
    paths = evaluate("player/filmstrip.js", "[0, 1, 2, 3, 9].map((index) => walkedPath(data, index))", STEPS)
    walked = "M1.5 1.5L2.5 1.5"
    assert paths == ["", walked, walked, f"{walked}L2.5 2.5", f"{walked}L2.5 2.5"]


def test_pushes_appear_when_they_happen_and_the_position_is_put_in_words() -> None:
    expression = """[pushedPath(data, 0), pushedPath(data, 1), lastStep([data, []]), lastStep([]),
        whereText(0, 4), whereText(2, 4), whereText(4, 4), whereText(0, 1)]"""
    assert evaluate("player/filmstrip.js", expression, STEPS) == [
        "",
        "M2.5 1.5L3.5 1.5",
        4,
        0,
        "Initial state, up to 4 actions",
        "After action 2 of up to 4",
        "Whole paths, up to 4 actions",
        "Initial state, up to 1 action",
    ]
