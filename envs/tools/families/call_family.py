"""What a family of models needs so that its calls can be read and written."""

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
        mark: the beginning of calls; it precedes one that cannot be read in the action's text.
        signs: texts of chat templates; a template of this family contains all texts of at least one of them.
        blocks: the calls of a response as texts: JSON objects with `name` and `arguments`, or what cannot be read as
            such. Definitions of tools tell texts from numbers in notations without quotation marks. Never raises.
        write: calls as a model of the family writes them.
    """

    mark: str
    signs: tuple[tuple[str, ...], ...]
    blocks: Callable[[str, Tools], list[str]]
    write: Callable[[Sequence[ToolCall]], str]

    def marks(self, template: str) -> bool:
        """Whether a chat template may be one of the family's."""
        return any(all(text in template for text in sign) for sign in self.signs)


def json_text(value: Any) -> str:
    """A value as JSON, with all letters as they are."""
    return json.dumps(value, ensure_ascii=False)


def call_block(name: str, arguments: Any) -> str:
    """A call as the JSON object that is read on; `arguments` may be a text that should be JSON."""
    return json_text({"name": name, "arguments": arguments})


def first_json(text: str, place: int = 0) -> tuple[Any, int] | None:
    """The JSON value at a place of a text, and where it ends; None where there is none."""
    try:
        return json.JSONDecoder().raw_decode(text, place)
    except (ValueError, RecursionError):
        return None


def plain_value(text: str, schema: Any) -> Any:
    """An argument that is written without quotation marks, by its JSON schema.

    A text stays as it is where the schema demands one. Else numbers, switches, lists and objects are read as JSON, or
    as Python writes them, which templates do that print values without a filter.
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
