"""Calls in the formats of model families: what families write, round trips, any text."""

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.tools.call_formats import (
    CALL_FORMATS,
    candidate_formats,
    fitting_format,
    parse_calls,
    render_calls,
    tools_as_text,
)
from envs.tools.calls import ToolCall, read_call
from envs.tools.tool import Tool, Toolbox
from tests.envs.tools.test_calls import PRICE, PYTHON, TOOLS, json_values, outcome_of

GUIDE = Path(__file__).parents[3] / "docs" / "tools.md"
NATIVE = [name for name in CALL_FORMATS if name != "answer"]
LAMP = 'price(item="lamp")'
formats = st.sampled_from(NATIVE)
TAGGED = ["qwen3_coder", "glm", "minimax", "seed_oss"]
"""Formats without quotation marks: the definition tells texts from other values."""
quoted = st.sampled_from([name for name in NATIVE if name not in TAGGED])
marks = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "[ARGS]", '{"name": "price"', "}", ";", "["),
        *("<minimax:tool_call>", '<invoke name="price">', '<parameter name="item">', "</parameter>", "</invoke>"),
        *("<seed:tool_call>", "<function=price>", "<parameter=item>", "</function>", "<function_calls>", "price("),
        *("price", "<arg_key>", "item", "</arg_key>", "<arg_value>", "</arg_value>", "<|tool_call|>", "<|/tool_call|>"),
        *("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<tool_calls>", "```json", "```", ")"),
        *("<|tool_call_start|>[", "]<|tool_call_end|>", "<|START_ACTION|>", '[{"tool_name": "price"', "<|END_ACTION|>"),
        *("<|tool_call>", "call:price{", "item:", '<|"|>', "<tool_call|>", "to=functions.price", "<|message|>", "{"),
    ]
)
plain_texts = st.text().filter(lambda text: "<" not in text and "\0" not in text)


@given(
    call_format=quoted,
    arguments=st.lists(st.dictionaries(st.sampled_from(["item", "count"]), json_values), min_size=1, max_size=3),
)
def test_rendered_calls_are_parsed_as_the_same_calls(call_format, arguments):
    calls = [ToolCall("price", each) for each in arguments]
    text = render_calls(calls, call_format)
    assert [read_call(action, TOOLS) for action in parse_calls(text, call_format)] == calls


@given(
    call_format=st.sampled_from(TAGGED),
    arguments=st.lists(
        st.fixed_dictionaries({}, optional={"item": plain_texts, "count": st.integers(-9, 99) | st.booleans()}),
        min_size=1,
        max_size=3,
    ),
)
def test_arguments_between_tags_are_parsed_as_what_the_definition_declares(call_format, arguments):
    calls = [ToolCall("price", each) for each in arguments]
    actions = parse_calls(render_calls(calls, call_format), call_format, [PRICE])
    assert [read_call(action, TOOLS) for action in actions] == calls


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
        (
            "hermes",
            "<tool_call><function=price><parameter=item>lamp",
            ["<tool_call><function=price><parameter=item>lamp"],
        ),
        ("qwen3_coder", '<tool_call>{"name": "now"}</tool_call>', ["now()"]),
        ("glm", "<tool_call>price\n<arg_key>item</arg_key>\n<arg_value>lamp</arg_value>\n</tool_call>", [LAMP]),
        ("glm", "<tool_call>now</tool_call>\n<tool_call>now\n", ["now()", "now()"]),
        ("glm", "<tool_call>price<arg_key>item</arg_key></tool_call>", ["<tool_call>price<arg_key>item</arg_key>"]),
        ("glm", "The answer is 3.", []),
        (
            "minimax",
            '<minimax:tool_call>\n<invoke name="price">\n<parameter name="item">lamp</parameter>\n</invoke>\n'
            '<invoke name="now">\n</invoke>\n</minimax:tool_call>',
            [LAMP, "now()"],
        ),
        ("minimax", "<minimax:tool_call>now", ["<minimax:tool_call>now"]),
        (
            "seed_oss",
            "<seed:tool_call>\n<function=price>\n<parameter=item>lamp</parameter>\n</function>\n</seed:tool_call>",
            [LAMP],
        ),
        (
            "seed_oss",  # a template prints lists and switches as Python does
            "<seed:tool_call><function=price><parameter=item>['lamp']</parameter><parameter=count>True</parameter>",
            ['price(item=["lamp"], count=true)'],
        ),
        (
            "granite",
            '<|tool_call|>[{"name": "price", "arguments": {"item": "lamp"}}, {"name": "now"}]',
            [LAMP, "now()"],
        ),
        ("granite", "<|tool_call|>[]", []),
        ("phi4_mini", '<|tool_call|>[{"name": "now", "arguments": {}}]<|/tool_call|>', ["now()"]),
        ("phi4_mini", '<|tool_call|>{"name": "now"}<|/tool_call|><|tool_call|>oops', ["now()", "<|tool_call|>oops"]),
        (
            "deepseek_v3",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>price\n```json\n"
            '{"item": "lamp"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            [LAMP],
        ),
        ("deepseek_v31", '<｜tool▁call▁begin｜>price<｜tool▁sep｜>{"item": "lamp"}<｜tool▁calls▁end｜>', [LAMP]),
        (
            "deepseek_v31",
            "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}",
            ["now()"] * 2,
        ),
        (
            "olmo3",
            "<function_calls>price(item='lamp', count=2)\nnow()</function_calls>",
            [LAMP[:-1] + ", count=2)", "now()"],
        ),
        ("olmo3", "<function_calls>\nprice(item='lamp', count=null)</function_calls>", [LAMP[:-1] + ", count=null)"]),
        ("olmo3", "<function_calls>price item</function_calls>", ["<function_calls>price item"]),
        ("hunyuan", '<tool_calls><tool_call>price\n```json\n{"item": "lamp"}\n```</tool_call></tool_calls>', [LAMP]),
        ("hunyuan", '<tool_calls>[{"name": "price", "arguments": {"item": "lamp"}}]</tool_calls>', [LAMP]),
        ("lfm2", "<|tool_call_start|>[price(item='lamp'), now()]<|tool_call_end|>The price is", [LAMP, "now()"]),
        ("lfm2", '<|tool_call_start|>[{"name": "price", "arguments": {"item": "lamp"}}]', [LAMP]),
        ("lfm2", "<|tool_call_start|>price(item='lamp')<|tool_call_end|>", [LAMP]),
        ("lfm2", "<|tool_call_start|>[price item]", ["<|tool_call_start|>price item"]),
        (
            "command",
            '<|START_ACTION|>[\n {"tool_call_id": "0", "tool_name": "price", "parameters": {"item": "lamp"}},\n'
            ' {"tool_call_id": "1", "tool_name": "now"}\n]<|END_ACTION|>',
            [LAMP, "now()"],
        ),
        ("command", '<|START_ACTION|>[{"tool_name": "price"', ['<|START_ACTION|>[{"tool_name": "price"']),
        ("gemma4", '<|tool_call>call:price{item:<|"|>lamp<|"|>}<tool_call|><|tool_call>call:now{}', [LAMP, "now()"]),
        (
            "gemma4",
            '<|tool_call>call:price{item:<|"|>a {big}, "old" lamp<|"|>, count:7, of:[1.5,true,{<|"|>a b<|"|>:null}]}',
            ['price(item="a {big}, \\"old\\" lamp", count=7, of=[1.5, true, {"a b": null}])'],
        ),
        ("gemma4", "<|tool_call>call:price{item: red lamp}<tool_call|>", ['price(item="red lamp")']),
        ("gemma4", "<|tool_call>price lamp<tool_call|>", ["<|tool_call>price lamp"]),
        ("gpt_oss", ' to=functions.price<|channel|>commentary json<|message|>{"item":"lamp"}', [LAMP]),
        (
            "gpt_oss",
            "<|channel|>analysis<|message|>First the lamp.<|end|><|start|>assistant<|channel|>commentary "
            'to=functions.price <|constrain|>json<|message|>{"item": "lamp"}<|call|>',
            [LAMP],
        ),
        ("gpt_oss", "<|channel|>final<|message|>The lamp costs 3.<|return|>", []),
    ],
)
def test_what_families_write(call_format, text, actions):
    assert parse_calls(text, call_format) == actions


@pytest.mark.parametrize(
    ("call_format", "text", "reason"),
    [
        ("glm", "<tool_call>price<arg_key>item</arg_key></tool_call>", "a name, a tag or a bracket is missing"),
        ("minimax", "<minimax:tool_call>now</minimax:tool_call>", "a name, a tag or a bracket is missing"),
        ("seed_oss", "<seed:tool_call><function=price><parameter=item>lamp", "a name, a tag or a bracket is missing"),
        ("olmo3", "<function_calls>price item</function_calls>", "a name, a tag or a bracket is missing"),
        ("granite", '<|tool_call|>[{"name": "price",', "the call is not valid JSON"),
        ("deepseek_v31", "<｜tool▁call▁begin｜>price<｜tool▁sep｜>{'item'}", "the arguments are not valid JSON"),
        ("hunyuan", "<tool_calls><tool_call>price lamp</tool_call>", "the arguments are not valid JSON"),
        ("gpt_oss", " to=functions.price<|channel|>commentary json<|message|>lamp", "the arguments are not valid JSON"),
        ("gemma4", '<|tool_call>call:price{item:<|"|>lamp}', "a name, a tag or a bracket is missing"),
        ("glm", "<tool_call>price</tool_call>", "price needs the argument 'item'"),
    ],
)
def test_a_malformed_call_has_the_reason_as_its_result(call_format, text, reason):
    toolbox = Toolbox([Tool(PRICE, lambda **arguments: "3")])
    (action,) = parse_calls(text, call_format, [PRICE])
    record = toolbox.execute(action)
    assert record is not None
    assert record.failed
    assert reason in record.result


@pytest.mark.parametrize(
    ("template", "formats"),
    [
        ("{{ '<tool_call>\n' }}{{ tool | tojson }}", ["hermes"]),
        ("{{ '<tool_call>' }}{{ '<function=' }}", ["hermes", "qwen3_coder"]),
        ("{{ '<tool_call>' }}{{ '<arg_key>' }}", ["hermes", "glm"]),
        ("{{ '[TOOL_CALLS] [' }}{{ '[AVAILABLE_TOOLS]' }}", ["mistral"]),
        ("{%- if builtin_tools %}{{ '<|python_tag|>' }}", ["llama"]),
        ("{{ '\"parameters\": ' }}{% if message.role == 'tool' %}ipython", ["llama"]),
        ("{{ '<|im_start|>' + message['role'] }}", []),
    ],
)
def test_the_marks_of_a_template_name_the_formats_it_may_have(template, formats):
    assert candidate_formats(template) == formats


@pytest.mark.parametrize("call_format", NATIVE)
def test_the_format_that_reads_and_writes_what_a_template_has_written_fits(call_format):
    calls = [ToolCall("price", {"item": "lamp", "count": 2})]
    assert fitting_format(NATIVE, render_calls(calls, call_format), calls, [PRICE]) == call_format
    assert fitting_format(NATIVE, "price: lamp", calls, [PRICE]) is None


@pytest.mark.parametrize("number", range(len(NATIVE)), ids=NATIVE)
def test_a_long_text_is_read_in_a_moment(number):
    """A policy that repeats itself must not hold up the run. Formats take turns with the openings of the texts."""
    openings = ("<tool_call>price<arg_key>", "<function=", "<minimax:tool_call><invoke name=", "<function_calls>")
    started = time.process_time()
    for place, repeated in enumerate(("<function=", "<arg_key>", " ", "price(", "<tool_call>", "{", "<parameter=")):
        opening = openings[(number + place) % len(openings)]
        parse_calls(opening + repeated * (60_000 // len(repeated)), NATIVE[number])
    assert time.process_time() - started < 4


def test_tools_as_text_are_lines_with_the_arguments_or_their_schemas():
    text = tools_as_text([PRICE, PYTHON], "answer")
    assert text == "Tools:\nprice(item, count?): Price of an item.\npython(code): Run code."
    schemas = tools_as_text([PRICE], "hermes").splitlines()
    assert json.loads(schemas[1])["function"]["name"] == "price"
    assert schemas[2].startswith("Call a tool as in <tool_call>")


def test_the_guide_has_each_format_with_a_call_that_is_read():
    section = GUIDE.read_text().partition("## Formats of calls")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]+\| (.+) \|$", section, re.MULTILINE)
    assert {name for name, _ in rows if name != "native"} == set(CALL_FORMATS)
    for name, cell in rows:
        if name in ("answer", "native") or "in a fence" in cell:
            continue
        example = cell.split("`")[1].replace("\\|", "|")
        assert parse_calls(example, name) == ['search(query="moons")']
