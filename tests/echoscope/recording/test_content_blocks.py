"""Blocks of messages become calls with results, thoughts and text; malformed ones become text."""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echoscope.recording.content_blocks import ConversationError
from echoscope.recording.conversation import read_conversation
from echoscope.recording.recorder import init
from tests.webapp.observed_images import image_file
from trainer.journal.reader import read

QUESTION = {"role": "user", "content": "Is it raining in Oslo?"}
CALL = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}


def assistant(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **fields}


def results(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def result(call_id: str = "t1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, **fields}


def calls_of(turn: Any) -> list[dict[str, Any]]:
    return [action["call"] for action in turn.actions]


def test_a_tool_use_block_is_a_call_with_the_result_of_the_next_user_message() -> None:
    thinking = {"type": "thinking", "thinking": "I have to look.", "signature": "abc"}
    messages = [
        QUESTION,
        assistant(thinking, {"type": "text", "text": "One moment."}, CALL),
        results(result(content="rain"), {"type": "text", "text": "Be brief."}),
        assistant({"type": "text", "text": "Yes."}),
    ]
    first, second = read_conversation(messages).turns
    assert calls_of(first) == [{"tool": "weather", "arguments": {"city": "Oslo"}, "result": "rain", "failed": False}]
    assert first.thought == "I have to look."
    assert first.answer == 'One moment.\nweather({"city": "Oslo"})'
    assert first.extra["tool_calls"] == [{"name": "weather", "arguments": '{"city": "Oslo"}', "id": "t1"}]
    assert (second.state, second.answer) == ("rain\nBe brief.", "Yes.")


def test_results_belong_to_the_calls_with_their_ids_and_errors_are_failures() -> None:
    other = CALL | {"id": "t2", "input": {"city": "Bergen"}}
    parts = [{"type": "text", "text": "no"}, {"type": "text", "text": "station"}]
    answers = results(result("t2", content=parts, is_error=True), result("t1"), result("t9", content="unknown"))
    (turn,) = read_conversation([QUESTION, assistant(CALL, other), answers]).turns
    assert [(call["result"], call["failed"]) for call in calls_of(turn)] == [("", False), ("no\nstation", True)]


def test_images_of_results_are_seen_in_the_next_turn() -> None:
    data = base64.b64encode(image_file()).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    messages = [QUESTION, assistant(CALL), results(result(content=[image])), assistant("Grey.")]
    first, second = read_conversation(messages).turns
    assert calls_of(first)[0]["result"] == "[image]"
    assert second.images == [image_file()]


def test_calls_that_are_a_block_and_a_field_are_read_once() -> None:
    field = [{"id": "t1", "name": "weather", "args": {}, "function": {"name": "weather", "arguments": "{}"}}]
    (turn,) = read_conversation([QUESTION, assistant(CALL, tool_calls=field)]).turns
    assert len(turn.actions) == 1


def test_tools_that_the_service_runs_have_their_results_in_the_same_message() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "Oslo"}}
    page = {"type": "web_search_result", "title": "Oslo", "url": "https://oslo.example", "encrypted_content": "x" * 99}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [page]}
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    refused = {"type": "web_search_tool_result", "tool_use_id": "s2", "content": error}
    (turn,) = read_conversation([QUESTION, assistant(search, found, search | {"id": "s2"}, refused, "Rain.")]).turns
    one, two = calls_of(turn)
    assert (one["result"], one["failed"]) == ("Oslo https://oslo.example", False)
    assert (two["result"], two["failed"]) == ("max_uses_exceeded", True)
    assert turn.answer.startswith("Rain.\nweb_search(")


def test_tools_of_inspect_that_the_service_ran_hold_their_own_result() -> None:
    block = {
        "type": "tool_use",
        "tool_type": "mcp_call",
        "id": "m1",
        "name": "add",
        "arguments": '{"a": 2}',
        "result": "4",
    }
    (turn,) = read_conversation([QUESTION, assistant(block | {"error": None})]).turns
    assert calls_of(turn) == [{"tool": "add", "arguments": {"a": 2}, "result": "4", "failed": False}]


@pytest.mark.parametrize(
    ("block", "thought"),
    [
        ({"type": "redacted_thinking", "data": "EncryptedText"}, "[redacted]"),
        ({"type": "reasoning", "reasoning": "EncryptedText", "redacted": True, "summary": "Weather."}, "Weather."),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Weather."}]}, "Weather."),
        ({"type": "thinking", "thinking": "", "signature": "abc"}, ""),
        ({"type": "thinking"}, "[thinking]"),
    ],
)
def test_hidden_reasoning_shows_its_summary_or_that_it_is_hidden(block: dict[str, Any], thought: str) -> None:
    (turn,) = read_conversation([QUESTION, assistant(block, "Yes.")]).turns
    assert turn.thought == thought


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "tool_use", "id": "t1"}, '[tool_use] {"id": "t1"}'),
        ({"type": "tool_use", "name": 5, "input": {}}, '[tool_use] {"name": 5, "input": {}}'),
        ({"type": "tool_result"}, "[tool_result] {}"),
        ({"type": "tool_result", "content": "rain"}, "rain"),
        ({"type": "refusal", "refusal": "No."}, "No."),
        ({"type": None}, "[text]"),
        ({"type": "video"}, "[video]"),
    ],
)
def test_malformed_and_unknown_blocks_are_text(block: dict[str, Any], text: str) -> None:
    (turn,) = read_conversation([QUESTION, assistant(block)]).turns
    assert (turn.response, turn.actions) == (text, [])


def test_arguments_that_are_no_object_are_kept() -> None:
    (turn,) = read_conversation(
        [QUESTION, assistant(CALL | {"input": ["Oslo"]}, CALL | {"input": None, "id": None})]
    ).turns
    assert [call["arguments"] for call in calls_of(turn)] == [{"arguments": '["Oslo"]'}, {"arguments": "null"}]


def test_items_of_a_response_are_one_turn_and_their_outputs_results() -> None:
    items = [
        QUESTION,
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call", "call_id": "c2", "name": "clock", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": {"hour": 9}},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"query": "Oslo"}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
    ]
    first, second = read_conversation(items).turns
    assert first.thought == "Look."
    assert [(call["tool"], call["result"]) for call in calls_of(first)] == [
        ("weather", "rain"),
        ("clock", '{"hour": 9}'),
    ]
    assert second.state == '{"hour": 9}\n\nrain'
    assert calls_of(second)[0]["arguments"] == {"action": {"query": "Oslo"}}
    assert second.answer.startswith("Yes.")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(
    ["text", "tool_use", "server_tool_use", "tool_result", "mcp_tool_result", "thinking", "redacted_thinking", "image"]
)
FIELDS = st.sampled_from(
    ["id", "tool_use_id", "name", "input", "arguments", "content", "is_error", "text", "thinking", "summary", "source"]
)
BLOCKS = st.builds(lambda kind, fields: {**fields, "type": kind}, KINDS | JSON, st.dictionaries(FIELDS, JSON))
ITEMS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(["function_call", "function_call_output", "reasoning", "web_search_call", "message"]),
    st.dictionaries(FIELDS | st.sampled_from(["call_id", "output", "error", "action"]), JSON),
)
MESSAGES = st.builds(
    lambda role, blocks: {"role": role, "content": blocks},
    st.sampled_from(["assistant", "user", "tool", "system"]),
    st.lists(BLOCKS, max_size=4),
)


@given(st.lists(MESSAGES, max_size=5))
def test_blocks_of_any_shape_are_read(messages: list[dict[str, Any]]) -> None:
    for turn in read_conversation(messages).turns:
        assert isinstance(turn.response, str)
        assert isinstance(turn.thought, str)
        assert all(isinstance(call["result"], str) for call in calls_of(turn))


@given(st.lists(MESSAGES | ITEMS, max_size=5))
def test_items_of_any_shape_are_read_unless_they_are_no_messages(messages: list[dict[str, Any]]) -> None:
    with suppress(ConversationError):
        turns = read_conversation(messages).turns
        assert all(isinstance(call["arguments"], dict) for turn in turns for call in calls_of(turn))


def test_inputs_nested_deeply_can_be_recorded(tmp_path: Path) -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = {"in": [deep]}
    (turn,) = read_conversation([QUESTION, assistant(CALL | {"input": deep})]).turns
    run = init("Deep", folder=tmp_path)
    with run.trajectory(prompt="", iteration=0) as attempt:
        attempt.turn(state=turn.state, response=turn.response, actions=turn.actions, **turn.extra)
    events: dict[str, Any] = {event.type: event for event in read(tmp_path / "journal.jsonl")}
    assert events["turn"].actions[0].call.arguments.keys() == {"arguments"}
