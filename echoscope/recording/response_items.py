"""Reads items of OpenAI's Responses API as messages of its chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from echoscope.recording.tool_calls import CALL_ROLES, calls_in_text

_CALL, _OUTPUT = "_call", "_call_output"
_NO_ARGUMENTS = {"type", "id", "call_id", "status", "output", "outputs", "error"}


def as_messages(items: Iterable[Any]) -> list[Any]:
    """Convert items without a role to messages: calls and reasoning of one response become one, with its text.

    Everything else, including messages, remains unchanged.
    """
    messages: list[Any] = []
    joins = False
    """True if the last message is a response of items, to which following items belong."""
    for item in items:
        kind = str(item.get("type") or "") if isinstance(item, Mapping) else ""
        role = item.get("role", item.get("from")) if isinstance(item, Mapping) else None
        if role is None and kind.endswith(_OUTPUT):
            messages.append(_output(item))
            joins = False
            continue
        part = _response(item, kind, role)
        if part is None:
            messages.append(item)
        elif joins and _are_of_one_response(messages[-1], part):
            _join(messages[-1], part)
        else:
            messages.append(part)
        joins = part is not None
    return messages


def _response(item: Any, kind: str, role: Any) -> dict[str, Any] | None:
    """Return an item that the policy made, as a message with a list of parts; None for other items."""
    if role in CALL_ROLES:
        text = item.get("content", item.get("value"))
        calls = [] if isinstance(text, list) else calls_in_text(text)
        response = [] if calls else text if isinstance(text, list) else [text]  # everything except calls is a response
        return {**_others(item), "role": "assistant", "content": response, "tool_calls": calls}
    if role == "assistant" and kind == "message":
        content = item.get("content")
        parts = content if isinstance(content, list) else [content] if isinstance(content, str) else None
        return None if parts is None else {**item, "content": list(parts), "tool_calls": item.get("tool_calls") or []}
    if role is not None:
        return None
    if kind == "reasoning":
        return {"role": "assistant", "content": [item], "tool_calls": []}
    if not kind.endswith(_CALL):
        return None
    return {"role": "assistant", "content": [], "tool_calls": [_call(item, kind)]}


def _call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a call as read_calls() takes it. Tools that the service runs are named by their type."""
    arguments = next((item[name] for name in ("arguments", "input") if item.get(name) is not None), None)
    if arguments is None:
        named = "name" in item
        arguments = "" if named else {name: value for name, value in item.items() if name not in _NO_ARGUMENTS}
    return {
        "id": item.get("call_id") or item.get("id"),
        "name": item.get("name") or kind.removesuffix(_CALL),
        "arguments": arguments,
        "result": item.get("output"),
        "error": item.get("error"),
    }


def _output(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a call as a message of the role tool."""
    output = item.get("output")
    if not (output is None or isinstance(output, str | list)):
        output = json.dumps(output, ensure_ascii=False, default=str)
    kept = {name: item[name] for name in ("error", "is_error") if name in item}
    return {"role": "tool", "tool_call_id": item.get("call_id"), "content": output, **kept}


def _others(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return further fields of a message, which its turn keeps."""
    return {name: value for name, value in item.items() if name not in ("role", "from", "content", "value")}


def _are_of_one_response(message: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Return True if joining them loses no field."""
    joined_fields = {"content", "tool_calls", "type", "id", "status"}
    return all(message[name] == part[name] for name in message.keys() & part.keys() - joined_fields)


def _join(message: dict[str, Any], part: Mapping[str, Any]) -> None:
    content, calls = [*message["content"], *part["content"]], [*message["tool_calls"], *part["tool_calls"]]
    message.update(part)
    message.update(content=content, tool_calls=calls)
