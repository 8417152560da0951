"""Interface of a model family for reading and writing its calls."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.base import ToolSpec
from envs.tools.calls import ToolCall

MAX_CALLS = 100
"""Maximum number of calls that are read from one response."""
_MAX_LITERAL = 4000
"""Maximum length of a value that is read as a Python literal, in characters."""

Tools = Mapping[str, ToolSpec]


@dataclass(frozen=True)
class CallFamily:
    """A notation of calls.

    Attributes:
        mark: the beginning of calls; it also precedes an unreadable call in the action's text.
        signs: texts of chat templates; a template of this family contains all texts of at least one of them.
        blocks: returns a response's calls as texts: JSON objects with `name` and `arguments`, or unreadable text. In
            notations without quotation marks, definitions of tools tell texts from numbers. Never raises.
        write: writes calls as a model of the family does.
    """

    mark: str
    signs: tuple[tuple[str, ...], ...]
    blocks: Callable[[str, Tools], list[str]]
    write: Callable[[Sequence[ToolCall]], str]

    def marks(self, template: str) -> bool:
        """Return True if a chat template may be the family's."""
        return any(all(text in template for text in sign) for sign in self.signs)


def json_text(value: Any) -> str:
    """Return a value as JSON, with all letters unchanged."""
    return json.dumps(value, ensure_ascii=False)


def call_block(name: str, arguments: Any) -> str:
    """Return a call as a JSON object for further reading; `arguments` may be a text that should be JSON."""
    return json_text({"name": name, "arguments": arguments})


def first_json(text: str, start: int = 0) -> tuple[Any, int] | None:
    """Return the JSON value at a position in a text, and its end; None if there is none."""
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def plain_value(text: str, schema: Any) -> Any:
    """Convert an argument written without quotation marks, by its JSON schema.

    A text remains unchanged if the schema requires one. Otherwise numbers, switches, lists and objects are read as
    JSON, or in Python's notation, which templates use that print values without a filter.
    """
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind in ("string", ["string"]):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _python_value(text.strip())
    return text if isinstance(value, str) or value is _NO_VALUE else value


_NO_VALUE = object()


def _python_value(text: str) -> Any:
    if len(text) > _MAX_LITERAL or not (text in ("True", "False", "None") or text.startswith(("[", "{", "("))):
        return _NO_VALUE
    try:
        value = ast.literal_eval(text)
        json.dumps(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return _NO_VALUE
    return value
