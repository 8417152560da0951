"""Calls in the formats of model families: what families write, round trips, any text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.tools.call_formats import CALL_FORMATS, detect_format, parse_calls, render_calls, tools_as_text
from envs.tools.calls import ToolCall, read_call
from tests.envs.tools.test_calls import PRICE, PYTHON, TOOLS, json_values, outcome_of

NATIVE = [name for name in CALL_FORMATS if name != "answer"]
LAMP = 'price(item="lamp")'
formats = st.sampled_from(NATIVE)
marks = st.sampled_from(
    ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "[ARGS]", '{"name": "price"', "}", ";", "["]
)


@given(
    call_format=formats,
    arguments=st.lists(st.dictionaries(st.sampled_from(["item", "count"]), json_values), min_size=1, max_size=3),
)
def test_rendered_calls_are_parsed_as_the_same_calls(call_format, arguments):
    calls = [ToolCall("price", each) for each in arguments]
    text = render_calls(calls, call_format)
    assert [read_call(action, TOOLS) for action in parse_calls(text, call_format)] == calls


@given(call_format=formats, pieces=st.lists(marks | st.text(max_size=12), max_size=10))
def test_no_text_raises_and_every_action_is_a_call_or_a_readable_error(call_format, pieces):
    for action in parse_calls("".join(pieces), call_format):
        assert outcome_of(action)


@pytest.mark.parametrize(
    ("call_format", "text", "actions"),
    [
        ("hermes", 'I look.\n<tool_call>\n{"name": "price", "arguments": {"item": "lamp"}}\n</tool_call>', [LAMP]),
        ("hermes", '<tool_call>{"name": "price", "arguments": {"item": "lamp"}}', [LAMP]),
        ("hermes", '<tool_call>{"name": "now"}</tool_call><tool_call>{"name": "now"}</tool_call>', ["now()", "now()"]),
        (
            "hermes",
            "<tool_call>\n<function=price>\n<parameter=item>\nlamp\n</parameter>\n<parameter=count>\n2\n</parameter>\n"
            "</function>\n</tool_call>",
            ['price(item="lamp", count=2)'],
        ),
        ("hermes", "<tool_call>{'name'}</tool_call>", ["<tool_call>{'name'}"]),
        ("hermes", '{"name": "price", "arguments": {"item": "lamp"}}', []),
        ("llama", '{"name": "price", "parameters": {"item": "lamp"}}', [LAMP]),
        ("llama", '<|python_tag|>{"name": "price", "parameters": {"item": "lamp"}}<|eom_id|>', [LAMP]),
        ("llama", '{"name": "now", "parameters": {}}; {"name": "now", "parameters": {}}', ["now()", "now()"]),
        ("llama", '{"name": "now", "parameters": {}} That is all.', ["now()"]),
        ("llama", '<|python_tag|>search.call(query="moons")', ['search(query="moons")']),
        ("llama", '<function=price>{"item": "lamp"}</function>', [LAMP]),
        ("llama", "<|python_tag|>print(1)", ["<|python_tag|>print(1)"]),
        ("llama", "The answer is 3.", []),
        ("mistral", '[TOOL_CALLS] [{"name": "price", "arguments": {"item": "lamp"}, "id": "123456789"}]', [LAMP]),
        ("mistral", '[TOOL_CALLS]price[ARGS]{"item": "lamp"}', [LAMP]),
        ("mistral", "[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{}[TOOL_CALLS]now[ARGS]{}", ["now()", "now()"]),
        ("mistral", '[TOOL_CALLS]price{"item": "lamp"}', [LAMP]),
        ("mistral", "[TOOL_CALLS] [oops", ["[TOOL_CALLS][oops"]),
        ("mistral", "The answer is 3.", []),
        ("answer", '<tool_call>{"name": "now"}</tool_call>', []),
    ],
)
def test_what_families_write(call_format, text, actions):
    assert parse_calls(text, call_format) == actions


@pytest.mark.parametrize(
    ("template", "call_format"),
    [
        ("{{ '<tool_call>\n' }}{{ tool | tojson }}", "hermes"),
        ("{{ '[TOOL_CALLS] [' }}{{ '[AVAILABLE_TOOLS]' }}", "mistral"),
        ("{%- if builtin_tools %}{{ '<|python_tag|>' }}", "llama"),
        ("{{ '\"parameters\": ' }}{% if message.role == 'tool' %}ipython", "llama"),
        ("{{ '<|im_start|>' + message['role'] }}", "answer"),
    ],
)
def test_the_format_is_that_of_the_template(template, call_format):
    assert detect_format(template) == call_format


def test_tools_as_text_are_lines_with_the_arguments_or_their_schemas():
    text = tools_as_text([PRICE, PYTHON], "answer")
    assert text == "Tools:\nprice(item, count?): Price of an item.\npython(code): Run code."
    schemas = tools_as_text([PRICE], "hermes").splitlines()
    assert json.loads(schemas[1])["function"]["name"] == "price"
    assert schemas[2].startswith("Call a tool as in <tool_call>")
