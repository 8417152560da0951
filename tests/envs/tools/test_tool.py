"""Execution of calls: check of arguments, errors as text, length of results."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import ToolSpec
from envs.tools.tool import MAX_RESULT, Tool, Toolbox, ToolError, text_tool

SCHEMA = {
    "type": "object",
    "properties": {
        "item": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": ["number", "null"]},
        "gift": {"type": "boolean"},
        "size": {"type": "string", "enum": ["S", "M"]},
        "parts": {"type": "array"},
    },
    "required": ["item"],
}


def order(**arguments):
    if arguments["item"] == "unicorn":
        raise ToolError("there are no unicorns")
    return json.dumps(arguments)


BOX = Toolbox(
    [
        Tool(ToolSpec(name="order", description="Order an item.", parameters=SCHEMA), order),
        text_tool("echo", "The text again.", "text", "Any text.", lambda text: text),
    ]
)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("order('lamp', 2)", {"item": "lamp", "count": 2}),
        ('order(item="lamp", count="2")', {"item": "lamp", "count": 2}),
        ('order(item="lamp", share="0.5")', {"item": "lamp", "share": 0.5}),
        ('order(item="lamp", share=null)', {"item": "lamp", "share": None}),
        (
            'order(item="lamp", gift=true, parts=[1], size="M")',
            {"item": "lamp", "gift": True, "parts": [1], "size": "M"},
        ),
    ],
)
def test_a_call_with_suitable_arguments_has_a_result(text, arguments):
    record = BOX.execute(text)
    assert (record.tool, record.arguments, record.failed) == ("order", arguments, False)
    assert json.loads(record.result) == arguments


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("order()", "order needs the argument 'item'"),
        ('order(item="lamp", colour="red")', "order has no argument 'colour': it takes item, count"),
        ("order(item=3)", "the argument 'item' must be of the type string, not 3"),
        ('order(item="lamp", count=2.5)', "the argument 'count' must be of the type integer, not 2.5"),
        ('order(item="lamp", count=true)', "must be of the type integer, not true"),
        ('order(item="lamp", gift=1)', "must be of the type boolean, not 1"),
        ('order(item="lamp", size="L")', 'must be one of "S", "M"'),
        ('order(item="unicorn")', "there are no unicorns"),
        ("pay(3)", "there is no tool 'pay': choose order, echo"),
        ("echo(abc", "the bracket after echo is not closed"),
    ],
)
def test_a_bad_call_is_answered_with_the_reason(text, reason):
    record = BOX.execute(text)
    assert record.failed
    assert record.result.startswith("Error: ")
    assert reason in record.result


def test_an_answer_is_no_call():
    assert BOX.execute("42") is None


@given(st.text(), st.integers(1, 50))
def test_results_are_storable_and_limited_in_length(text, limit):
    box = Toolbox(BOX.tools.values(), max_result=limit)
    record = box.execute(f"echo({json.dumps(text)})")
    assert len(record.result) <= limit
    assert "\0" not in record.result
    record.result.encode()


def test_no_setting_allows_results_without_limit():
    assert Toolbox([], max_result=10**9).max_result == MAX_RESULT
