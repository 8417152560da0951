"""Calls written as JSON objects after a mark: Hermes and Qwen, Llama, Mistral, Granite 3, Phi-4-mini, Command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from envs.tools.calls import ToolCall, readable_call
from envs.tools.families.call_family import MAX_CALLS, CallFamily, Tools, call_block, first_json, json_text
from envs.tools.families.tagged_calls import FUNCTION_TAGS, qwen3_coder_text

_HERMES = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_LLAMA_TAG, _MISTRAL_TAG, _JSON_TAG, _PHI_END = "<|python_tag|>", "[TOOL_CALLS]", "<|tool_call|>", "<|/tool_call|>"
_ACTION, _ACTION_END = "<|START_ACTION|>", "<|END_ACTION|>"
_LLAMA_FUNCTION = re.compile(r"<function=([^<>\s]+)\s*>(.*?)(?:</function>|\Z)", re.DOTALL)
_LLAMA_ENDS = ("<|eom_id|>", "<|eot_id|>")
_MISTRAL_NAMED = re.compile(r"\s*([A-Za-z_][\w.-]*)(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?\s*(?=\{)")
_SEPARATOR = re.compile(r"[\s;,]*")


def _hermes_blocks(text: str, tools: Tools) -> list[str]:
    """Return calls within `<tool_call>`: JSON, or the tags of Qwen3-Coder."""
    blocks = [block[1] for block in _HERMES.finditer(text)]
    return [FUNCTION_TAGS.call(block, tools) or block for block in blocks]


def _hermes_text(calls: Sequence[ToolCall]) -> str:
    return "\n".join(f"<tool_call>\n{call_block(call.name, call.arguments)}\n</tool_call>" for call in calls)


def _llama_blocks(text: str, tools: Tools) -> list[str]:
    for end in _LLAMA_ENDS:
        text = text.split(end)[0]
    head, tag, after = text.partition(_LLAMA_TAG)
    body = (after if tag else head).strip()
    if body.startswith("<function="):
        return [call_block(name, inner.strip()) for name, inner in _LLAMA_FUNCTION.findall(body)]
    if body.startswith("{"):
        return _json_sequence(body)
    if not tag:
        return []
    built_in = re.fullmatch(r"([A-Za-z_]\w*)\.call\((.*)\)", body, re.DOTALL)
    call = readable_call(f"{built_in[1]}({built_in[2]})", {}) if built_in else None
    return [call_block(call.name, call.arguments) if call else body]


def _json_sequence(body: str) -> list[str]:
    """Split JSON objects that follow each other, with white space, semicolons or commas between them."""
    position = 0
    blocks: list[str] = []
    while position < len(body) and len(blocks) < MAX_CALLS:
        if (value_and_end := first_json(body, position)) is None:
            return [*blocks, body[position:]]
        _, end = value_and_end
        blocks.append(body[position:end])
        separator = _SEPARATOR.match(body, end)
        position = separator.end() if separator else end
        if position < len(body) and body[position] != "{":
            break  # prose after the calls
    return blocks


def _llama_text(calls: Sequence[ToolCall]) -> str:
    return "; ".join(json_text({"name": call.name, "parameters": call.arguments}) for call in calls)


def _mistral_blocks(text: str, tools: Tools) -> list[str]:
    _, *parts = text.split(_MISTRAL_TAG)
    blocks: list[str] = []
    for part in parts:
        body = part.strip()
        named = _MISTRAL_NAMED.match(body)
        if (decoded := first_json(body, named.end() if named else 0)) is None:
            blocks.append(body)
            continue
        content = decoded[0]
        calls = (
            [{"name": named[1], "arguments": content}] if named else content if isinstance(content, list) else [content]
        )
        blocks.extend(map(json_text, calls))
    return blocks


def _listed_blocks(text: str, tools: Tools) -> list[str]:
    """Return calls after `<|tool_call|>`: a JSON list of calls, or one object."""
    blocks: list[str] = []
    for part in text.split(_JSON_TAG)[1:]:
        body = part.strip()
        if (decoded := first_json(body)) is None:
            blocks.append(body.partition(_PHI_END)[0].strip())
        else:
            content = decoded[0]
            blocks.extend(map(json_text, content if isinstance(content, list) else [content]))
    return blocks


def _command_blocks(text: str, tools: Tools) -> list[str]:
    """Return calls after `<|START_ACTION|>`: a JSON list of calls, or one object, with `tool_name` and `parameters`."""
    blocks: list[str] = []
    for part in text.split(_ACTION)[1:]:
        body = part.partition(_ACTION_END)[0].strip()
        value_and_end = first_json(body)
        listed = (
            []
            if value_and_end is None
            else value_and_end[0]
            if isinstance(value_and_end[0], list)
            else [value_and_end[0]]
        )
        blocks.extend(map(_command_block, listed))
        if value_and_end is None:
            blocks.append(body)
    return blocks


def _command_block(call: Any) -> str:
    if isinstance(call, dict) and isinstance(call.get("tool_name"), str):
        return call_block(call["tool_name"], call.get("parameters", {}))
    return json_text(call)


def _command_text(calls: Sequence[ToolCall]) -> str:
    listed = [
        {"tool_call_id": str(number), "tool_name": call.name, "parameters": call.arguments}
        for number, call in enumerate(calls)
    ]
    return _ACTION + json_text(listed) + _ACTION_END


def _list_writer(begin: str, end: str = "") -> Callable[[Sequence[ToolCall]], str]:
    def write(calls: Sequence[ToolCall]) -> str:
        return begin + json_text([vars(call) for call in calls]) + end

    return write


HERMES = CallFamily("<tool_call>", (("<tool_call>",),), _hermes_blocks, _hermes_text)
QWEN3_CODER = CallFamily("<tool_call>", (("<tool_call>", "<function="),), _hermes_blocks, qwen3_coder_text)
LLAMA = CallFamily(_LLAMA_TAG, ((_LLAMA_TAG,), ("ipython", '"parameters"')), _llama_blocks, _llama_text)
MISTRAL = CallFamily(_MISTRAL_TAG, ((_MISTRAL_TAG,),), _mistral_blocks, _list_writer(_MISTRAL_TAG))
COMMAND = CallFamily(_ACTION, ((_ACTION, "tool_name"),), _command_blocks, _command_text)
GRANITE = CallFamily(_JSON_TAG, ((_JSON_TAG,),), _listed_blocks, _list_writer(_JSON_TAG))
PHI = CallFamily(_JSON_TAG, ((_PHI_END,), ("<|/tool|>",)), _listed_blocks, _list_writer(_JSON_TAG, _PHI_END))
