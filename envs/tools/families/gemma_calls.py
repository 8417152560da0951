"""Calls in Gemma 4's notation of objects: bare keys, and texts between tokens instead of quotation marks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from envs.tools.calls import ToolCall
from envs.tools.families.call_family import CallFamily, Tools, call_block, first_json, json_text

_CALL, _CALL_END, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_CALLS = re.compile(r"<\|tool_call>(.*?)(?:<tool_call\|>|(?=<\|tool_call>)|\Z)", re.DOTALL)
_NAMED = re.compile(r"\s*call:\s*([^\s{}:]+)\s*(?=\{)")
_TOKEN = re.compile(
    r'<\|"\|>(?P<text>.*?)<\|"\|>|(?P<mark>[{}\[\],:])|(?P<bare>[^{}\[\],:<\s][^{}\[\],:<]*)', re.DOTALL
)
_BARE_KEY = re.compile(r"[\w.-]+")


def _blocks(text: str, tools: Tools) -> list[str]:
    return [_block(block) for block in _CALLS.findall(text)]


def _block(text: str) -> str:
    """Return the call as a JSON object; the text itself if it is not a call."""
    if not (named := _NAMED.match(text)):
        return text.strip()
    body = "".join(_as_json(text[named.end() :]))
    value_and_end = first_json(body)
    if value_and_end is None or body[value_and_end[1] :]:
        return text.strip()
    return call_block(named[1], value_and_end[0])


def _as_json(text: str) -> Iterator[str]:
    """Yield the parts of an object in this notation as parts of JSON; between them there is only white space."""
    position = 0
    for token in _TOKEN.finditer(text):
        if text[position : token.start()].strip():
            yield "?"  # no JSON has it
        position = token.end()
        if token["text"] is not None:
            yield json_text(token["text"])
        elif token["mark"]:
            yield token["mark"]
        else:
            yield _bare(token["bare"].strip(), key=text[position : position + 1] == ":")
    if text[position:].strip():
        yield "?"


def _bare(text: str, *, key: bool) -> str:
    """Convert a key, a number or a constant; any other bare word is a text."""
    value_and_end = None if key else first_json(text)
    return text if value_and_end and value_and_end[1] == len(text) else json_text(text)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return f"{_QUOTE}{value}{_QUOTE}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_key(key)}:{_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_value, value)) + "]"
    return json_text(value)


def _text(calls: Sequence[ToolCall]) -> str:
    return "".join(f"{_CALL}call:{call.name}{_value(call.arguments)}{_CALL_END}" for call in calls)


GEMMA4 = CallFamily(_CALL, ((_CALL, _QUOTE),), _blocks, _text)
