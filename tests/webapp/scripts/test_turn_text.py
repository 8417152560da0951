"""Texts of turns of other trainers' runs: scripts, templates and notebooks show the same."""

from __future__ import annotations

from typing import Any

import pytest
from django.template.loader import render_to_string

from echoscope.recording import turn_text as notebook
from tests.webapp.javascript import evaluate
from webapp.trajectories.positions import positions
from webapp.trajectories.turn_text import MAX_EXTRA, extra_text, response_text

SEARCH = {"text": 'search({"q": "moons"})', "name": "search", "call": {"tool": "search", "result": "two"}}
RESPONSES: list[tuple[dict[str, Any], str]] = [
    ({"response": "  a table\n  1   2\n"}, "  a table\n  1   2"),
    ({"response": "<think>\nHm.\n</think>\n  It is 4.", "thought": "Hm."}, "  It is 4."),
    ({"response": "Hm.</think>It is 4.", "thought": "Hm."}, "It is 4."),
    ({"response": "It is 4.", "thought": "written elsewhere"}, "It is 4."),
    ({"response": "<think>Only this", "thought": "Only this"}, ""),
    ({"response": 'I search.\nsearch({"q": "moons"})', "actions": [SEARCH]}, "I search."),
    ({"response": 'search({"q": "moons"})\nsearch({"q": "moons"})', "actions": [SEARCH, SEARCH]}, ""),
    ({"response": 'not search({"q": "moons"}) alone', "actions": [SEARCH]}, 'not search({"q": "moons"}) alone'),
    ({"response": "CRANE\n", "actions": [{"text": "CRANE"}]}, ""),
    ({"response": "I guess CRANE.", "actions": [{"text": "CRANE", "name": "CRANE"}]}, "I guess CRANE."),
    ({"response": ""}, ""),
]
EXTRAS: list[tuple[Any, list[dict[str, Any]], str]] = [
    (None, [], ""),
    ({}, [], ""),
    ({"judge": 1.0, "more": {"ä": [1, 0.5, None, True], "no": {}}}, [], ""),
    ({"tool_calls": [{"name": "search"}]}, [SEARCH], ""),
    ({"tool_calls": [{"name": "search"}], "latency": 3}, [SEARCH], '{\n  "latency": 3\n}'),
    ({"tool_calls": [1]}, [], '{\n  "tool_calls": [\n    1\n  ]\n}'),
    ({"long": "😀" * 2 * MAX_EXTRA}, [], ""),
]


@pytest.mark.parametrize(("turn", "text"), RESPONSES)
def test_script_and_templates_show_the_same_of_a_response(turn: dict[str, Any], text: str) -> None:
    turn = {"thought": "", "actions": []} | turn
    assert response_text(turn) == notebook.response_text(turn) == text
    assert evaluate("ui/turn_text.js", "responseText(data)", turn) == text


@pytest.mark.parametrize(("extra", "actions", "text"), EXTRAS)
def test_script_and_templates_show_the_same_further_fields(extra: Any, actions: list[Any], text: str) -> None:
    shown = extra_text(extra, actions)
    assert notebook.extra_text(extra, actions) == shown
    assert shown == text or (extra and not text and len(shown) < MAX_EXTRA + 100)
    assert (
        evaluate("ui/turn_text.js", "extraText(data.extra, data.actions)", {"extra": extra, "actions": actions})
        == shown
    )


def test_further_fields_are_escaped_and_bounded() -> None:
    turn = {"turn": 0, "reward": 0, "state": "", "thought": "", "response": "", "actions": [], "tokens": 0}
    page = render_to_string("trajectories/_turn.html", {"turn": turn | {"extra": {"html": "<script>" * 9999}}})
    assert "<script>" not in page
    assert "more characters are in the export." in page
    assert len(page) < 10 * MAX_EXTRA


def played(**more: Any) -> dict[str, Any]:
    turns = [
        {"turn": 0, "state": "first", "actions": [SEARCH]},
        {"turn": 1, "state": "second", "actions": [], "images": [{"sha256": "x"}]},
        {"turn": 2, "state": "third", "actions": [], "board": {"kind": "text", "text": "a map"}},
    ]
    return {"board": {"kind": "text", "text": ""}, "turns": turns, "recorded": True} | more


@pytest.mark.parametrize(
    ("more", "boards"),
    [
        ({}, ["first", "first", "", "a map"]),
        ({"board": {"kind": "text", "text": "start"}}, ["start", "start", "start", "a map"]),
        ({"recorded": False}, ["", "", "", ""]),
    ],
)
def test_without_a_board_the_state_of_another_trainers_turn_stands_for_it(more: Any, boards: list[str]) -> None:
    data = played(**more)
    assert [position.board["text"] for position in positions(data)] == boards
    assert evaluate("player/positions.js", "positionsOf(data).map((step) => step.board.text)", data) == boards


@pytest.mark.parametrize("recorded", [True, False])
def test_a_new_attempt_on_the_live_page_knows_whose_it_is(recorded: bool) -> None:
    member = {"id": "a", "slug": "a", "turns": 0, "status": "waiting", "format_error": False}
    state = {
        "run": {"recorded": recorded},
        "stage": None,
        "wall": {"iteration": 1, "split": "train", "groups": [{"group": 0, "members": [member]}]},
    }
    started = {"type": "group_started", "iteration": 1, "split": "train", "group": 0, "board": {"kind": "text"}}
    expression = """(() => {
        let state = data.state;
        const page = { get: () => state, set: (next) => { state = next; }, watch: () => {}, settled: () => true };
        const selection = new Selection(page);
        selection.note(data.started);
        selection.tick();
        return state.stage.recorded ?? false;
    })()"""
    assert evaluate("live/selection.js", expression, {"state": state, "started": started}) is recorded
