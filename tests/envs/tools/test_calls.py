"""Calls of tools as text: round trips, all ways of writing arguments, and texts that are none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import ToolSpec
from envs.tools.calls import MARKS, MAX_CALL, MAX_DEPTH, CallError, ToolCall, exact_text, read_call

PRICE = ToolSpec(
    name="price",
    description="Price of an item.",
    parameters={
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item"],
    },
)
PYTHON = ToolSpec(
    name="python", description="Run code.", parameters={"type": "object", "properties": {"code": {"type": "string"}}}
)
NOW = ToolSpec(name="now", description="The time.", parameters={"type": "object"})
TOOLS = {tool.name: tool for tool in (PRICE, PYTHON, NOW)}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc-", max_size=3), inner, max_size=3),
    max_leaves=6,
)


def outcome_of(text):
    """The call, None for an answer, or the reason why a call cannot be read."""
    try:
        return read_call(text, TOOLS)
    except CallError as error:
        return str(error)


@given(st.dictionaries(st.sampled_from(["item", "count"]), json_values))
def test_a_call_written_as_text_is_read_as_the_same_call(arguments):
    call = ToolCall("price", arguments)
    assert read_call(call.text(), TOOLS) == call


@given(st.dictionaries(st.text("ab_-é", min_size=1, max_size=4), json_values, max_size=3))
def test_arguments_of_any_name_survive(arguments):
    spec = ToolSpec(name="any", description="", parameters={"properties": {name: {} for name in arguments}})
    call = ToolCall("any", arguments)
    assert read_call(call.text(), {"any": spec}) == call


@given(st.text('ab1 ().="é', min_size=1, max_size=8))
def test_a_call_with_any_name_is_read_as_a_call_and_never_as_an_answer(name):
    call = ToolCall(name, {"item": "lamp"})
    assert read_call(exact_text(call, TOOLS), TOOLS) == call


@given(st.dictionaries(st.sampled_from(["code", "text", "item"]), json_values))
def test_wrong_arguments_are_not_read_as_the_text_of_the_only_one(arguments):
    call = ToolCall("python", arguments)
    assert read_call(exact_text(call, TOOLS), TOOLS) == call


@given(st.text(max_size=80), st.sampled_from(["", *MARKS, "price(", "python(", "{", '{"name": ', "now()"]))
def test_any_text_is_a_call_an_answer_or_an_error_with_a_reason(text, beginning):
    outcome = outcome_of(beginning + text)
    if isinstance(outcome, ToolCall):
        assert json.loads(json.dumps(outcome.arguments, allow_nan=False)) == outcome.arguments
    else:
        assert outcome is None or outcome, "an error has a reason"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60))
def test_the_only_text_argument_needs_no_quotation_marks(code):
    code = code.strip()
    quoted = code[:1] in ("'", '"', "{") or "=" in code
    if code and not quoted:
        assert read_call(f"python({code})", TOOLS) == ToolCall("python", {"code": code})


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("now()", "now", {}),
        (' price(item="lamp", count=2) ', "price", {"item": "lamp", "count": 2}),
        ("price(item='lamp', count = 2)", "price", {"item": "lamp", "count": 2}),
        ("price('lamp', 2)", "price", {"item": "lamp", "count": 2}),
        ('price({"item": "lamp"})', "price", {"item": "lamp"}),
        ('{"name": "price", "arguments": {"item": "lamp"}}', "price", {"item": "lamp"}),
        ('{"name": "price", "parameters": {"item": "lamp"}}', "price", {"item": "lamp"}),
        ('{"name": "price", "arguments": "{\\"item\\": \\"lamp\\"}"}', "price", {"item": "lamp"}),
        ("python(print({1: 2}))", "python", {"code": "print({1: 2})"}),
        ("python('print(1)')", "python", {"code": "print(1)"}),
        ('python(x = 3\nprint(f"{x}"))', "python", {"code": 'x = 3\nprint(f"{x}")'}),
        ('python(code="a\\nb")', "python", {"code": "a\nb"}),
        ('nothing(a=1, b="x")', "nothing", {"a": 1, "b": "x"}),
        ("nothing(what is this)", "nothing", {}),
    ],
)
def test_ways_to_write_a_call(text, name, arguments):
    assert read_call(text, TOOLS) == ToolCall(name, arguments)


@pytest.mark.parametrize("text", ["", "42", "the lamp (red)", "f (x)", "1 + (2 * 3)", "{1, 2}", '{"a": 1}', "now"])
def test_other_texts_are_answers(text):
    assert read_call(text, TOOLS) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("price(item='lamp'", "the bracket after price is not closed"),
        ("price(size=3)", "price has no argument 'size': it takes item, count"),
        ("price(a b c)", "write price(item=…, count=…)"),
        ("price('a', 1, 2)", "write price(item=…, count=…)"),
        ('<tool_call>{"name": "price", "arguments": {"item": "lamp"}', "not valid JSON: Expecting ',' delimiter"),
        ("<tool_call>", "not valid JSON"),
        ('<tool_call>{"arguments": {}}', 'the call has no "name"'),
        ('<tool_call>{"name": "price", "arguments": [1]}', '"arguments" must be an object'),
        ("[TOOL_CALLS]3", "the call must be an object"),
        ('{"name": "price", "arguments": {"count": 1e999}}', None),
        ("<|python_tag|>" + "[" * 100_000, "at most 20000 are read"),
        ('<tool_call>{"name": "now", "arguments": {"a": ' + "[" * 15_000, "nested too deeply"),
        (f"price(item={'[' * (MAX_DEPTH + 1)}{']' * (MAX_DEPTH + 1)})", "nested more than 30 levels deep"),
        (f"python({'x' * MAX_CALL})", "at most 20000 are read"),
    ],
)
def test_a_text_meant_as_a_call_is_refused_with_the_reason(text, reason):
    if reason is None:
        assert read_call(text, TOOLS) is None, "not a JSON object at all"
        return
    with pytest.raises(CallError) as refusal:
        read_call(text, TOOLS)
    assert reason in str(refusal.value)


def test_what_cannot_be_stored_is_replaced():
    call = read_call('<tool_call>{"name": "python", "arguments": {"code": "a\\ud800b\\u0000"}}', TOOLS)
    assert call == ToolCall("python", {"code": "a?b\N{REPLACEMENT CHARACTER}"})
    call.text().encode()
