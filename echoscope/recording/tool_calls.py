"""Converts tool calls in the formats of chat APIs to actions of a turn, with the results that follow them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from echoscope.recording.json_values import MAX_DEPTH, as_json

RESULT_ROLES = {"tool", "function", "observation", "tool_response"}
CALL_ROLES = {"function_call", "tool_call"}
"""Roles of the policy's messages that consist of a call or a list of calls, in ShareGPT and ms-swift."""


def read_calls(calls: Any) -> list[dict[str, Any]]:
    """Return calls with `name`, `arguments` (their text), and `id`, `result` and `failed` if they have them.

    `calls` are OpenAI's nested calls, flat calls of Inspect, Anthropic's blocks, or JSON text of either.
    """
    if isinstance(calls, str):
        calls = _decoded(calls)
    converted = []
    for raw in calls if isinstance(calls, Sequence) and not isinstance(calls, str) else []:
        call = _decoded(raw) if isinstance(raw, str) else raw
        if not isinstance(call, Mapping):
            continue
        inner = call.get("function")
        function = inner if isinstance(inner, Mapping) else call
        name = function.get("name") or (inner if isinstance(inner, str) else "")
        arguments = function.get("arguments", function.get("input", ""))
        arguments_text = (
            arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
        )
        read: dict[str, Any] = {"name": str(name or "tool"), "arguments": arguments_text}
        if call.get("id") is not None:
            read["id"] = str(call["id"])
        error = _text(call.get("error"))
        if call.get("result") is not None or error:
            read["result"] = _text(call.get("result")) or error
        if error or call.get("failed") is True:
            read["failed"] = True
        converted.append(read)
    return converted


def calls_in_text(text: Any) -> list[dict[str, Any]]:
    """Return the calls in the JSON text of a message of CALL_ROLES; empty if there are none."""
    value = _decoded(text) if isinstance(text, str) else text
    calls = value if isinstance(value, list) else [value]
    named = [call for call in calls if isinstance(call, Mapping) and (call.get("name") or call.get("function"))]
    return read_calls(named) if len(named) == len(calls) else []


def as_action(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call of read_calls() as an action of docs/journal.md. Without a known result it is empty."""
    record: dict[str, Any] = {"tool": call["name"], "arguments": _arguments(call["arguments"])}
    record |= {"result": call.get("result", ""), "failed": call.get("failed", False)}
    return {"text": f"{call['name']}({call['arguments']})", "name": call["name"], "call": record}


class OpenCalls:
    """Calls that still lack results, in order."""

    def __init__(self) -> None:
        self._open: list[tuple[str, dict[str, Any]]] = []

    def add(self, calls: Sequence[Mapping[str, Any]], actions: Sequence[Mapping[str, Any]]) -> None:
        """Add a turn's calls and their actions, which get the results; earlier calls get none any more."""
        self._open = [(call.get("id", ""), action["call"]) for call, action in zip(calls, actions, strict=True)]

    def resolve(self, message: Mapping[str, Any], text: str) -> None:
        """Keep a message's text as the result of its call: found by id, without one by name, or else the next call.

        `message` has the role tool or function, or is a mapping with `tool_call_id` and `is_error`.
        """
        key = str(message.get("tool_call_id") or "")
        known = any(name for name, _ in self._open)
        if key and known:
            at = next((at for at, (name, _) in enumerate(self._open) if name == key), -1)
        else:
            tool = message.get("name") if message.get("role") == "function" else None
            at = next((at for at, (_, call) in enumerate(self._open) if tool in (None, call["tool"])), -1)
        if at < 0:
            return
        _, call = self._open.pop(at)
        error = _text(message.get("error"))
        call["result"] = text or error
        call["failed"] = bool(error) or message.get("is_error") is True or message.get("status") == "error"


def _arguments(text: str) -> dict[str, Any]:
    """Return arguments by name. A text that is not an object, or nested too deeply for readers, is one argument."""
    if not text.strip():
        return {}
    value = _decoded(text)
    arguments: dict[str, Any] = (
        as_json(value) if isinstance(value, dict) and _depth(value) <= MAX_DEPTH else {"arguments": text}
    )
    return arguments


def _depth(value: Any) -> int:
    """Return levels of nesting, counted up to one more than MAX_DEPTH."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level, depth = [part for parts in inner for part in parts], depth + bool(inner)
    return depth


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("message"), str):
        return str(value["message"])
    return value if isinstance(value, str) else "" if value in (None, False) else json.dumps(value, default=str)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return []
