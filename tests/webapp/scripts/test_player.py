"""Arithmetic of the player, without a browser: positions, URLs, layout of wall and board."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webapp.javascript import evaluate
from webapp.core import formatting
from webapp.pages.runs.live_layout import EDGE, wall_height


def grid(*rows: str) -> dict[str, Any]:
    return {"kind": "grid", "theme": "sokoban", "rows": list(rows)}


def action(name: str, status: str = "executed", **more: Any) -> dict[str, Any]:
    return {"text": name, "name": name, "status": status, "reward": -0.1, **more}


TRAJECTORY = {
    "board": grid("#@$.#"),
    "hint": {"distance": 3, "solvable": "yes"},
    "turns": [
        {
            "turn": 0,
            "reward": -0.2,
            "actions": [
                action("Left", board=grid("#@$.#"), hint={"distance": 3}),
                action("Up", "illegal"),
            ],
        },
        {
            "turn": 1,
            "reward": 10.9,
            "actions": [
                action("Right", board=grid("# @*#"), hint={"distance": 0}),
                action("Up", "ignored"),
            ],
        },
    ],
}


def test_positions_are_each_turns_start_and_each_action() -> None:
    found = evaluate(
        "player/positions.js",
        "positionsOf(data).map((step) => [step.turn, step.action, step.board.rows[0]])",
        TRAJECTORY,
    )
    assert found == [
        [0, -1, "#@$.#"],
        [0, 0, "#@$.#"],
        [0, 1, "#@$.#"],
        [1, -1, "#@$.#"],
        [1, 0, "# @*#"],
        [1, 1, "# @*#"],
    ]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("", 0),
        ("?turn=1", 0),
        ("?turn=1&action=2", 2),
        ("?turn=2", 3),
        ("?turn=2&action=1", 4),
        ("?turn=2&action=99", 5),
        ("?turn=99&action=1", 5),
        ("?turn=0&action=-3", 0),
        ("?turn=x&action=y", 0),
    ],
)
def test_a_url_names_a_position_and_invalid_ones_the_nearest(query: str, index: int) -> None:
    expression = "fromAddress(positionsOf(data.trajectory), new URLSearchParams(data.query))"
    assert evaluate("player/positions.js", expression, {"trajectory": TRAJECTORY, "query": query}) == index


def test_every_position_round_trips_through_its_url() -> None:
    expression = (
        "positionsOf(data).map((step, index, all) => fromAddress(all, new URLSearchParams(toAddress(step))) === index)"
    )
    assert evaluate("player/positions.js", expression, TRAJECTORY) == [True] * 6


def test_rewards_accumulate_up_to_the_position() -> None:
    expression = "positionsOf(data).map((step) => rewardSoFar(data, step))"
    assert evaluate("player/positions.js", expression, TRAJECTORY) == pytest.approx([0, -0.1, -0.2, -0.2, -0.3, 10.7])


def test_the_penalty_of_a_turn_without_actions_counts() -> None:
    silent = {"board": grid("#@$.#"), "turns": [{"turn": 0, "reward": -0.1, "actions": []}]}
    assert evaluate("player/positions.js", "rewardSoFar(data, positionsOf(data)[0])", silent) == pytest.approx(-0.1)


def test_up_and_down_move_by_turn() -> None:
    expression = (
        "[[0, 1], [2, 1], [4, 1], [5, -1], [3, -1], [0, -1]].map(([at, way]) => turnStart(positionsOf(data), at, way))"
    )
    assert evaluate("player/positions.js", expression, TRAJECTORY) == [3, 3, 5, 3, 0, 0]


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ([[1, 1]], [[2, 1]], [0]),
        ([[1, 1], [3, 3]], [[3, 3], [1, 2]], [1, 0]),
        ([[1, 1]], [[5, 5], [1, 1]], [-1, 0]),
        ([], [[0, 0]], [-1]),
    ],
)
def test_pieces_keep_their_identity_when_the_board_changes(
    before: list[Any], after: list[Any], pairs: list[int]
) -> None:
    expression = "matchPieces(data.before.map(([x, y]) => ({x, y})), data.after.map(([x, y]) => ({x, y})))"
    assert evaluate("board/board.js", expression, {"before": before, "after": after}) == pairs


def test_a_board_has_a_text_description() -> None:
    words = evaluate("board/board.js", "describeBoard(data)", grid("####", "#@*#", "#$.#", "####"))
    assert words == (
        "Sokoban board, 4 rows by 4 columns. player at row 2, column 2. box at row 2, column 3 on a target. "
        "box at row 3, column 2. target at row 2, column 3. target at row 3, column 3."
    )


@pytest.mark.parametrize("width", [260, 322, 400])
@pytest.mark.parametrize(("groups", "size"), [(8, 16), (1, 1), (256, 1), (16, 8), (128, 16), (2, 200)])
def test_the_cells_of_the_wall_are_large_and_inside_it(groups: int, size: int, width: int) -> None:
    plan = evaluate(
        "live/rollout_grid.js",
        "({...layout(data.groups, data.size, data.width), pitch: PITCH})",
        {"groups": groups, "size": size, "width": width},
    )
    assert plan["cell"] >= 24
    assert plan["left"] + plan["columns"] * plan["pitch"] + plan["bar"] <= width
    lines = -(-groups // plan["columns"]) if plan["flow"] else groups * -(-size // plan["columns"])
    assert plan["height"] >= lines * plan["pitch"]


@pytest.mark.parametrize(("groups", "size"), [(16, 8), (8, 16), (4, 3)])
def test_the_page_reserves_the_height_of_the_wall(groups: int, size: int) -> None:
    height = evaluate("live/rollout_grid.js", "layout(data[0], data[1], 322).height", [groups, size])
    assert wall_height(groups, size) == height + 2 * EDGE


@pytest.mark.parametrize(
    ("gesture", "way"),
    [((-90, 10, 200), 1), ((90, -10, 200), -1), ((-20, 0, 100), 0), ((-90, 80, 200), 0), ((-90, 0, 2000), 0)],
)
def test_only_quick_horizontal_gestures_are_swipes(gesture: tuple[int, int, int], way: int) -> None:
    assert evaluate("player/swipe.js", "swipeWay(...data)", gesture) == way


def test_groups_and_attempts_count_from_one() -> None:
    assert evaluate("ui/formatting.js", "[ordinal(0), place(3, 11)]", None) == [1, "g4 · 12"]
    assert formatting.place(3, 11) == "g4 · 12"


@pytest.mark.parametrize(
    ("text", "thought", "answer", "rest"),
    [
        ("<think>I see the b", "I see the b", None, ""),
        ("I see the box</thi", "I see the box", None, ""),
        ("<think>I push.</think>", "I push.", "", ""),
        ("<think>I push.</think><answer>Left || R", "I push.", "Left || R", ""),
        ("I push.</think><answer>Left</answer>", "I push.", "Left", ""),
        ("I push.</think><answer>Left</answer>, 64 tokens. <answer>", "I push.", "Left", ", 64 tokens. <answer>"),
        ("<answer>Up", "", "Up", ""),
        ('Look.</think>\n<tool_call>{"na', "Look.", '<tool_call>{"na', ""),
        ("Look.</think><ans", "Look.", "", ""),
    ],
)
def test_a_response_being_written_is_split(text: str, thought: str, answer: str | None, rest: str) -> None:
    assert evaluate("turns/typing.js", "splitResponse(data)", text) == {
        "thought": thought,
        "answer": answer,
        "rest": rest,
    }


@pytest.mark.parametrize(("now", "length"), [(1000, 10), (1040, 20), (1080, 30), (5000, 30), (900, 10)])
def test_new_text_is_written_evenly_until_the_next_message_is_due(now: int, length: int) -> None:
    step = {"from": 10, "to": 30, "began": 1000, "lasts": 80}
    assert evaluate("turns/typing.js", "shownLength(...data)", [step, now]) == length
    assert evaluate("turns/typing.js", "shownLength(...data)", [step | {"lasts": 0}, now]) == 30


def test_series_are_aligned_on_one_axis() -> None:
    expression = "align([[[1, 10], [3, 30]], [[2, 5]]])"
    assert evaluate("curves/series.js", expression, None) == [[1, 2, 3], [10, None, 30], [None, 5, None]]
