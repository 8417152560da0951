"""Calls written as a name and then JSON, mostly in a fence of three backticks: DeepSeek V3 and V3.1, Hunyuan."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs.tools.calls import ToolCall
from envs.tools.families.call_family import CallFamily, Tools, call_block, first_json, json_text

_BEGIN, _END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"
_DEEPSEEK = re.compile(rf"{_CALL}(.*?)(?:{_CALL_END}|(?={_CALL})|{_END}|\Z)", re.DOTALL)
_HUNYUAN_LIST, _HUNYUAN_END = "<tool_calls>", "</tool_calls>"
_HUNYUAN = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|</tool_calls>|\Z)", re.DOTALL)
_NAMED = re.compile(r"\s*([^\s`<>{}\[\]\"']+)\s*")
_FENCE = "```"


def _named_block(text: str) -> str:
    """Return a name and its arguments as a JSON object; the text itself if there is no name.

    Arguments that are not JSON remain a text, about which the policy then gets an error.
    """
    if not (named := _NAMED.match(text)):
        return text.strip()
    inner = text[named.end() :].strip().removeprefix(_FENCE).removeprefix("json").removesuffix(_FENCE).strip()
    value_and_end = first_json(inner)
    if value_and_end and not inner[value_and_end[1] :].strip():
        return call_block(named[1], value_and_end[0])
    return call_block(named[1], inner)


def _deepseek_blocks(text: str, tools: Tools) -> list[str]:
    blocks = []
    for block in _DEEPSEEK.findall(text):
        head, separator, after = block.partition(_SEPARATOR)
        if not separator:
            blocks.append(_named_block(block))
        elif after.lstrip().startswith("{") or not _NAMED.match(after):
            blocks.append(_named_block(f"{head}\n{after}"))  # V3.1: the name and the arguments
        else:
            blocks.append(_named_block(after))  # V3: the word "function", then name and arguments
    return blocks


def _hunyuan_blocks(text: str, tools: Tools) -> list[str]:
    """Return calls within `<tool_calls>`: a JSON list, or one `<tool_call>` each."""
    _, opened, body = text.partition(_HUNYUAN_LIST)
    if opened and (value_and_end := first_json(body.strip())) and isinstance(value_and_end[0], list):
        return [json_text(call) for call in value_and_end[0]]
    blocks = [_named_block(block) for block in _HUNYUAN.findall(body if opened else text)]
    unread = body.partition(_HUNYUAN_END)[0].strip()
    return blocks or ([unread] if unread else [])


def _fenced(call: ToolCall) -> str:
    return f"{call.name}\n{_FENCE}json\n{json_text(call.arguments)}\n{_FENCE}"


def _v3_text(calls: Sequence[ToolCall]) -> str:
    return _BEGIN + "\n".join(f"{_CALL}function{_SEPARATOR}{_fenced(call)}{_CALL_END}" for call in calls) + _END


def _v31_text(calls: Sequence[ToolCall]) -> str:
    written = (f"{_CALL}{call.name}{_SEPARATOR}{json_text(call.arguments)}{_CALL_END}" for call in calls)
    return _BEGIN + "".join(written) + _END


def _hunyuan_text(calls: Sequence[ToolCall]) -> str:
    written = "\n".join(f"<tool_call>{_fenced(call)}</tool_call>" for call in calls)
    return f"{_HUNYUAN_LIST}\n{written}\n{_HUNYUAN_END}"


DEEPSEEK_V3 = CallFamily(_BEGIN, ((_BEGIN, _SEPARATOR),), _deepseek_blocks, _v3_text)
DEEPSEEK_V31 = CallFamily(_BEGIN, ((_BEGIN, _SEPARATOR),), _deepseek_blocks, _v31_text)
HUNYUAN = CallFamily(_HUNYUAN_LIST, ((_HUNYUAN_LIST,),), _hunyuan_blocks, _hunyuan_text)
