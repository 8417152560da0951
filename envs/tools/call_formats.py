"""Formats in which families of models write tool calls, and detection of a family by its chat template.

| format | families | a call |
| --- | --- | --- |
| `hermes` | Hermes, Qwen2.5, Qwen3, Qwen3-Coder | `<tool_call>{"name": …, "arguments": {…}}</tool_call>` |
| `llama` | Llama 3.1 to 3.3 | `{"name": …, "parameters": {…}}`, also after `<|python_tag|>` |
| `mistral` | Mistral | `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]name[ARGS]{…}` |
| `answer` | any, and the pocket policy | `<answer>name(argument=value)</answer>` |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from envs.base import ToolSpec
from envs.tools.calls import CallError, ToolCall, exact_text, read_object, readable_call

CallFormat = Literal["answer", "hermes", "llama", "mistral"]
CALL_FORMATS: tuple[CallFormat, ...] = get_args(CallFormat)
MAX_CALLS = 100
"""Maximum number of calls that are read from one response."""

_HERMES = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_XML_FUNCTION = re.compile(r"\s*<function=([^>\s]+)\s*>(.*?)(?:</function>\s*|\Z)", re.DOTALL)
_XML_PARAMETER = re.compile(r"<parameter=([^>\s]+)\s*>\n?(.*?)\n?</parameter>", re.DOTALL)
_HERMES_TAG, _LLAMA_TAG, _MISTRAL_TAG = "<tool_call>", "<|python_tag|>", "[TOOL_CALLS]"
_LLAMA_FUNCTION = re.compile(r"<function=([^>\s]+)\s*>(.*?)(?:</function>|\Z)", re.DOTALL)
_LLAMA_ENDS = ("<|eom_id|>", "<|eot_id|>")
_MISTRAL_NAMED = re.compile(r"\s*([A-Za-z_][\w.-]*)(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?\s*(?=\{)")


def detect_format(template: str) -> CallFormat:
    """The format whose marks a chat template contains; `answer` where it has none."""
    if _HERMES_TAG in template:
        return "hermes"
    if _MISTRAL_TAG in template:
        return "mistral"
    if _LLAMA_TAG in template or ("ipython" in template and '"parameters"' in template):
        return "llama"
    return "answer"


def parse_calls(text: str, call_format: CallFormat, tools: Sequence[ToolSpec] = ()) -> list[str]:
    """The calls in a response, in order, as the actions that environments read; empty where there is none.

    A call that cannot be read stays as written, so that the environment reports the error to the policy. Never raises.

    Args:
        text: the response after its thought, without the end token.
        call_format: of a model family; in the format `answer`, the response parser reads the calls.
        tools: of the environment.
    """
    if call_format == "answer":
        return []
    mark, blocks_of = _FAMILIES[call_format]
    return [_action(block, mark, tools) for block in blocks_of(text)[:MAX_CALLS]]


def action_of_call(name: str, arguments: str, tools: Sequence[ToolSpec]) -> str:
    """The action of a call whose parts an API reports apart: the tool's name, and the arguments as a JSON text.

    One that cannot be read stays as reported, as in `parse_calls`.
    """
    return _action(_json({"name": name, "arguments": arguments}), _HERMES_TAG, tools)


def _action(block: str, mark: str, tools: Sequence[ToolSpec]) -> str:
    """The action of a JSON object or of Qwen3-Coder's XML; the text after its mark, if it is neither."""
    try:
        call = read_object(_json_of_xml(block) or block.strip())
    except CallError:
        return f"{mark}{block.strip()}"
    return exact_text(call, {tool.name: tool for tool in tools})


def _json_of_xml(block: str) -> str:
    function = _XML_FUNCTION.match(block)
    if not function:
        return ""
    arguments = {name: _xml_value(text) for name, text in _XML_PARAMETER.findall(function[2])}
    return _json({"name": function[1], "arguments": arguments})


def _xml_value(text: str) -> Any:
    """A parameter written as text: JSON for objects, lists, numbers and switches."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, str) else value


def _hermes_blocks(text: str) -> list[str]:
    return [block[1] for block in _HERMES.finditer(text)]


def _llama_blocks(text: str) -> list[str]:
    for end in _LLAMA_ENDS:
        text = text.split(end)[0]
    before, tag, after = text.partition(_LLAMA_TAG)
    body = (after if tag else before).strip()
    if body.startswith("<function="):
        return [_json({"name": name, "arguments": inner.strip()}) for name, inner in _LLAMA_FUNCTION.findall(body)]
    if body.startswith("{"):
        return _json_sequence(body)
    if not tag:
        return []
    built_in = re.fullmatch(r"([A-Za-z_]\w*)\.call\((.*)\)", body, re.DOTALL)
    call = readable_call(f"{built_in[1]}({built_in[2]})", {}) if built_in else None
    return [_json({"name": call.name, "arguments": call.arguments}) if call else body]


def _json_sequence(body: str) -> list[str]:
    """Calls written as JSON objects one after the other, with white space, semicolons or commas between them."""
    decoder, place = json.JSONDecoder(), 0
    blocks: list[str] = []
    while place < len(body) and len(blocks) < MAX_CALLS:
        try:
            _, end = decoder.raw_decode(body, place)
        except (ValueError, RecursionError):
            return [*blocks, body[place:]]
        blocks.append(body[place:end])
        separator = re.compile(r"[\s;,]*").match(body, end)
        place = separator.end() if separator else end
        if place < len(body) and body[place] != "{":
            break  # prose after the calls
    return blocks


def _mistral_blocks(text: str) -> list[str]:
    _, *parts = text.split(_MISTRAL_TAG)
    blocks: list[str] = []
    for part in parts:
        body = part.strip()
        named = _MISTRAL_NAMED.match(body)
        try:
            found, _ = json.JSONDecoder().raw_decode(body[named.end() :] if named else body)
        except (ValueError, RecursionError):
            blocks.append(body)
            continue
        calls = [{"name": named[1], "arguments": found}] if named else found if isinstance(found, list) else [found]
        blocks.extend(map(_json, calls))
    return blocks


_FAMILIES: dict[str, tuple[str, Callable[[str], list[str]]]] = {
    "hermes": (_HERMES_TAG, _hermes_blocks),
    "llama": (_LLAMA_TAG, _llama_blocks),
    "mistral": (_MISTRAL_TAG, _mistral_blocks),
}
"""Format → the mark of a call, and the function that finds the calls of a response as texts of their own."""


def render_calls(calls: Sequence[ToolCall], call_format: CallFormat) -> str:
    """The calls as a model of the family writes them: what demonstrations teach."""
    match call_format:
        case "hermes":
            return "\n".join(
                f"<tool_call>\n{_json({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"
                for call in calls
            )
        case "llama":
            return "; ".join(_json({"name": call.name, "parameters": call.arguments}) for call in calls)
        case "mistral":
            return _MISTRAL_TAG + _json([{"name": call.name, "arguments": call.arguments} for call in calls])
    return " || ".join(call.text() for call in calls)


_EXAMPLE = ToolCall("name", {"argument": "value"})


def tools_as_text(tools: Sequence[ToolSpec], call_format: CallFormat) -> str:
    """The tools as lines of a prompt, for templates that render none, with an example of a call."""
    if call_format == "answer":
        return "\n".join(["Tools:", *(f"{_signature(tool)}: {tool.description}" for tool in tools)])
    lines = ["Tools, as JSON schemas:", *(_json(tool.definition()) for tool in tools)]
    return "\n".join([*lines, f"Call a tool as in {render_calls([_EXAMPLE], call_format)}"])


def _signature(tool: ToolSpec) -> str:
    required = tool.parameters.get("required")
    optional = [name for name in tool.properties if isinstance(required, list) and name not in required]
    return f"{tool.name}({', '.join(f'{name}?' if name in optional else name for name in tool.properties)})"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
