"""Responses with calls in the formats of model families."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import CallRecord
from envs.tools.call_formats import CALL_FORMATS
from tests.trainer.random_texts import texts
from trainer.journal.events import ActionRecord, Turn
from trainer.rollout.tool_turns import call_results, message_role, parse_tool_response

CALL = '<tool_call>{"name": "price", "arguments": {"item": "lamp"}}</tool_call>'


def parse(response: str, *, think: bool = True, max_actions: int = 2):
    return parse_tool_response(response, think=think, max_actions=max_actions, call_format="hermes")


def test_a_call_after_the_thought_is_the_action():
    parsed = parse(f"I look it up.</think>\n{CALL}")
    assert (parsed.thought, parsed.actions, parsed.problem) == ("I look it up.", ('price(item="lamp")',), None)
    assert parsed.structured
    assert parse(CALL, think=False).actions == ('price(item="lamp")',)


def test_calls_beyond_the_limit_are_dropped():
    assert len(parse(f"so</think>{CALL * 5}", max_actions=3).actions) == 3


def test_without_a_call_the_answer_is_the_action():
    parsed = parse("It is 3.</think>So: <answer> 3 </answer>")
    assert (parsed.thought, parsed.actions, parsed.answer) == ("It is 3.", ("3",), "3")


def test_an_answer_beside_a_call_is_ignored():
    assert parse(f"so</think>{CALL}<answer>3</answer>").actions == ('price(item="lamp")',)


def test_a_call_within_the_thought_is_none():
    assert parse(f"{CALL}</think><answer>3</answer>").actions == ("3",)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (CALL, "the thought is not closed with </think>"),
        ("so</think>three", "there is neither a call nor an <answer>"),
        ("so</think><answer>three", "the answer is not closed with </answer>"),
        ("so</think><answer> </answer>", "the answer is empty"),
    ],
)
def test_a_response_without_an_action_has_the_reason(response, problem):
    parsed = parse(response)
    assert (parsed.actions, parsed.problem) == ((), problem)


@given(texts, st.booleans(), st.sampled_from(CALL_FORMATS[1:]))
def test_any_response_is_parsed(response, think, call_format):
    parsed = parse_tool_response(response, think=think, max_actions=3, call_format=call_format)
    assert len(parsed.actions) <= 3
    assert bool(parsed.actions) == (parsed.problem is None)


def turn(*calls: CallRecord) -> Turn:
    actions = [ActionRecord(text="x", status="executed", call=call) for call in calls]
    texts = dict.fromkeys(("state", "response", "thought", "answer"), "")
    return Turn(
        trajectory="t",
        turn=0,
        **texts,
        format_valid=True,
        actions=actions,
        reward=0,
        terms={},
        tokens=1,
        truncated=False,
    )


def test_results_of_several_calls_are_numbered_and_the_only_one_is_the_state():
    two = CallRecord(tool="price", result="3"), CallRecord(tool="stock", result="none", failed=True)
    assert call_results(turn(*two)) == "1. price: 3\n2. stock: none"
    assert call_results(turn(two[0])) == ""
    assert (message_role(turn(*two)), message_role(turn())) == ("tool", "user")
