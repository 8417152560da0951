"""Texts of turns: scripts and templates show the same, and nothing of a response is lost; likewise notebooks for
turns of other trainers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as st

from echoscope.recording import turn_text as notebook
from tests.webapp.core.test_output_budget import nested
from tests.webapp.javascript import evaluate
from trainer.rollout.response_parser import parse_response
from webapp.trajectories.positions import positions
from webapp.trajectories.turn_text import MAX_EXTRA, extra_text, folded_parts, response_text

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
    ({"deep": nested(60, 2_000, mapping=False)}, [], f'{{"deep":{"[" * 61}{",".join("0" * 2_000)}{"]" * 61}}}'),
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


def parsed_turn(response: str, *, think: bool = True, most: int = 2, **more: Any) -> dict[str, Any]:
    """A turn of our own trainer, with what its parser reads of a response."""
    parsed = parse_response(response, think=think, max_actions=most)
    actions = [{"text": text, "status": "illegal"} for text in parsed.actions]
    read = {"thought": parsed.thought, "answer": parsed.answer, "actions": actions, "format_valid": parsed.structured}
    return {"turn": 0, "reward": 0, "state": "?", "tokens": 9, "response": response} | read | more


FOLDED: list[tuple[dict[str, Any], list[str]]] = [
    (parsed_turn("thought</think><answer>Up</answer>"), []),
    (parsed_turn("thought</think><answer>Up</answer>, 64 tokens. 👍"), ["… 14 more characters after the answer"]),
    (parsed_turn("t</think><answer>Up</answer>, 64", folded_tokens=[3]), ["… 3 more tokens after the answer"]),
    (parsed_turn("t</think> so <answer>Up</answer>"), ["… 22 more characters after the thought"]),
    (parsed_turn("t</think><answer>Up"), ["… 10 more characters after the thought"]),
    (parsed_turn("only a thought, 我想"), []),
    (parsed_turn("</think>nothing else", format_valid=True), ["… 12 more characters after the thought"]),
    (parsed_turn("Up</answer>and on", think=False), ["… 6 more characters after the answer"]),
    (parsed_turn("Up and on", think=False), []),
    (
        parsed_turn("t</think><answer>Up||||Down || Left || Up</answer>x"),
        ["… 10 more characters in the answer, beyond the turn's limit", "… 1 more character after the answer"],
    ),
    (
        parsed_turn("t</think> now <answer>42</answer>!", answer="42", actions=[{"text": "42", "status": "executed"}]),
        ["… 3 more characters between thought and answer", "… 1 more character after the answer"],
    ),
    (
        parsed_turn("t</think><tool_call>{}</tool_call>", actions=[SEARCH], format_valid=True),
        ["… 25 more characters after the thought"],
    ),
]


@pytest.mark.parametrize(("turn", "labels"), FOLDED)
def test_script_and_templates_fold_the_same_of_a_response(turn: dict[str, Any], labels: list[str]) -> None:
    parts = folded_parts(turn)
    assert [part.label for part in parts] == labels
    assert [turn["response"][part.start : part.end] for part in parts] == [part.text for part in parts]
    scripted = evaluate("ui/turn_text.js", "foldedParts(data)", turn)
    assert scripted == [{"text": part.text, "label": part.label} for part in parts]
    page = render_to_string("trajectories/_turn.html", {"turn": {"terms": {}} | turn})
    assert page.count('class="turn-state turn-rest"') == len(labels)


WRITTEN = st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "||", " ", "\n", "?"]), max_size=14)


@given(pieces=WRITTEN, think=st.booleans(), most=st.integers(1, 3))
def test_each_word_of_a_response_is_shown_once(pieces: list[str], think: bool, most: int) -> None:
    if not think:
        pieces = [piece for piece in pieces if "think" not in piece]
    words = iter(range(10, 99))
    response = "".join(f"w{next(words)}" if piece == "?" else piece for piece in pieces)
    turn = parsed_turn(response, think=think, most=most)
    shown = [part.text for part in folded_parts(turn)]
    if not turn["thought"] and not turn["format_valid"]:
        assert shown == [], "the turn shows the response itself"
        return
    shown += [turn["thought"], *(action["text"] for action in turn["actions"])]
    found = re.findall(r"w\d\d", " ".join(shown))
    assert sorted(found) == re.findall(r"w\d\d", response)


def test_a_problem_of_a_valid_format_is_the_answers() -> None:
    turn = {"terms": {}} | parsed_turn("t</think><answer>action</answer>", problem="no such action: 'action'")
    assert "<b>Answer: </b>no such action" in render_to_string("trajectories/_turn.html", {"turn": turn})
    broken = render_to_string("trajectories/_turn.html", {"turn": turn | {"format_valid": False}})
    assert "<b>Format: </b>no such action" in broken


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
