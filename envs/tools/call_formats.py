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
from collections.abc import Sequence
from typing import Any, Literal, get_args

from envs.base import ToolSpec
from envs.tools.calls import CallError, ToolCall, read_object, readable_call

CallFormat = Literal["answer", "hermes", "llama", "mistral"]
CALL_FORMATS: tuple[CallFormat, ...] = get_args(CallFormat)
MAX_CALLS = 100
"""Maximum number of calls that are read from one response."""

_HERMES = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_XML_FUNCTION = re.compile(r"\s*<function=([^>\s]+)\s*>(.*?)(?:</function>\s*|\Z)", re.DOTALL)
_XML_PARAMETER = re.compile(r"<parameter=([^>\s]+)\s*>\n?(.*?)\n?</parameter>", re.DOTALL)
_LLAMA_TAG, _MISTRAL_TAG = "<|python_tag|>", "[TOOL_CALLS]"
_LLAMA_ENDS = ("<|eom_id|>", "<|eot_id|>")
_MISTRAL_NAMED = re.compile(r"\s*([A-Za-z_][\w.-]*)(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?\s*(?=\{)")


def detect_format(template: str) -> CallFormat:
    """The format whose marks a chat template contains; `answer` where it has none."""
    if "<tool_call>" in template:
        return "hermes"
    if _MISTRAL_TAG in template:
        return "mistral"
    if _LLAMA_TAG in template or ("ipython" in template and '"parameters"' in template):
        return "llama"
    return "answer"


def parse_calls(text: str, call_format: CallFormat) -> list[str]:
    """The calls in a response, in order, as the actions that environments read; empty where there is none.

    A call that cannot be read stays as written, so that the environment reports the error to the policy. Never raises.

    Args:
        text: the response after its thought, without the end token.
        call_format: of a model family; in the format `answer`, the response parser reads the calls.
    """
    match call_format:
        case "hermes":
            return [_action_of(block[1], "<tool_call>") for block in _HERMES.finditer(text)][:MAX_CALLS]
        case "llama":
            return _llama_calls(text)
        case "mistral":
            return _mistral_calls(text)
    return []


def _action_of(block: str, mark: str) -> str:
    """The action of a JSON object, or of Qwen3-Coder's XML."""
    if function := _XML_FUNCTION.match(block):
        arguments = {name: _xml_value(value) for name, value in _XML_PARAMETER.findall(function[2])}
        return _text_of({"name": function[1], "arguments": arguments}, block, mark)
    try:
        return read_object(block.strip()).text()
    except CallError:
        return f"{mark}{block.strip()}"


def _xml_value(text: str) -> Any:
    """A parameter written as text: JSON for objects, lists, numbers and switches."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, str) else value


def _text_of(call: dict[str, Any], block: str, mark: str) -> str:
    try:
        return read_object(json.dumps(call)).text()
    except CallError:
        return f"{mark}{block.strip()}"


def _llama_calls(text: str) -> list[str]:
    for end in _LLAMA_ENDS:
        text = text.split(end)[0]
    before, tag, after = text.partition(_LLAMA_TAG)
    body = (after if tag else before).strip()
    if body.startswith("<function="):
        return [
            _action_of(json.dumps({"name": name, "arguments": inner.strip() or "{}"}), _LLAMA_TAG)
            for name, inner in re.findall(r"<function=([^>\s]+)\s*>(.*?)(?:</function>|\Z)", body, re.DOTALL)
        ][:MAX_CALLS]
    if body.startswith("{"):
        return _json_sequence(body, _LLAMA_TAG)
    if not tag:
        return []
    built_in = re.fullmatch(r"([A-Za-z_]\w*)\.call\((.*)\)", body, re.DOTALL)
    if built_in:
        call = readable_call(f"{built_in[1]}({built_in[2]})", {})
        return [call.text() if call else f"{_LLAMA_TAG}{body}"]
    return [f"{_LLAMA_TAG}{body}"]


def _json_sequence(body: str, mark: str) -> list[str]:
    """Calls written as JSON objects one after the other, with white space, semicolons or commas between them."""
    decoder, place = json.JSONDecoder(), 0
    actions: list[str] = []
    while place < len(body) and len(actions) < MAX_CALLS:
        try:
            _, end = decoder.raw_decode(body, place)
        except (ValueError, RecursionError):
            return [*actions, f"{mark}{body[place:].strip()}"]
        actions.append(_action_of(body[place:end], mark))
        separator = re.compile(r"[\s;,]*").match(body, end)
        place = separator.end() if separator else end
        if place < len(body) and body[place] != "{":
            break  # prose after the calls
    return actions


def _mistral_calls(text: str) -> list[str]:
    _, *blocks = text.split(_MISTRAL_TAG)
    actions: list[str] = []
    for block in blocks:
        body = block.strip()
        if named := _MISTRAL_NAMED.match(body):
            arguments = body[named.end() :].strip()
            actions.append(_mistral_named(named[1], arguments, body))
            continue
        try:
            found, _ = json.JSONDecoder().raw_decode(body)
        except (ValueError, RecursionError):
            actions.append(f"{_MISTRAL_TAG}{body}")
            continue
        objects = found if isinstance(found, list) else [found]
        actions.extend(_action_of(json.dumps(each), _MISTRAL_TAG) for each in objects)
    return actions[:MAX_CALLS]


def _mistral_named(name: str, arguments: str, body: str) -> str:
    try:
        found, _ = json.JSONDecoder().raw_decode(arguments)
    except (ValueError, RecursionError):
        return f"{_MISTRAL_TAG}{body}"
    return _text_of({"name": name, "arguments": found}, body, _MISTRAL_TAG)


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
