"""Tool calls as text, in the form of environments: `name(argument=value, …)` with JSON values.

Environments read this form as actions, whatever the format in which a model wrote the call.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from envs.base import ToolSpec

MAX_CALL = 20_000
"""Maximum length of a call in characters."""
MAX_DEPTH = 30
"""Maximum nesting of lists and objects in arguments."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_NAMED = re.compile(rf"({_NAME.pattern})\((.*)\)[;.]?", re.DOTALL)
_UNCLOSED = re.compile(rf"({_NAME.pattern})\(")
_KEY = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*")
_MAX_PYTHON = 4000
"""Maximum length of arguments that are parsed as Python, in characters."""
_COMMA = re.compile(r"\s*,\s*")
MARKS = (
    *("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", "<minimax:tool_call>", "<seed:tool_call>"),
    *("<|tool_call|>", "<｜tool▁calls▁begin｜>", "<function_calls>", "<tool_calls>"),
    *("<|tool_call_start|>", "<|START_ACTION|>", "<|tool_call>", "<|channel|>commentary"),
)
"""Beginnings of calls in the formats of model families."""
_WITHOUT_JSON = (
    *("<minimax:tool_call>", "<seed:tool_call>", "<function_calls>", "<tool_calls>"),
    *("<|tool_call_start|>", "<|tool_call>"),
)
_BEGINNING = re.compile(rf"(?:\s*(?:{'|'.join(map(re.escape, MARKS))}))*\s*")


class CallError(ValueError):
    """Text that is meant as a call but cannot be read as one. The message says why, for the policy."""


@dataclass(frozen=True)
class ToolCall:
    """A tool's name and its arguments, which are JSON values."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Return the call as an action: `price(item="lamp", count=2)`."""
        if all(key.isascii() and key.isidentifier() for key in self.arguments):
            return f"{self.name}({', '.join(f'{key}={_json(value)}' for key, value in self.arguments.items())})"
        return f"{self.name}({_json(self.arguments)})"


def read_call(text: str, tools: Mapping[str, ToolSpec]) -> ToolCall | None:
    """Read a text as a call; return None if it is not a call, for example an answer.

    A name that is no tool's counts as a call if brackets follow it directly. Arguments are `name=value` with JSON or
    Python literals, a JSON object, values in the order of the definition, or, for a tool with a single text argument,
    that text unchanged: `search(moons of Tavi)`.

    Raises:
        CallError: the text is meant as a call and cannot be read.
    """
    text = text.strip()
    if text.startswith(MARKS):
        return _call_of_marked(text)
    if text.startswith("{") and (call := _json_object(text)) and "name" in call:
        return _call_of_object(call)
    if match := _NAMED.fullmatch(text):
        _check_length(text)
        name, inside = match[1], match[2].strip()
        return ToolCall(name, _arguments(name, inside, tools.get(name)))
    if (start := _UNCLOSED.match(text)) and start[1] in tools:
        raise CallError(f"the bracket after {start[1]} is not closed")
    return None


def exact_text(call: ToolCall, tools: Mapping[str, ToolSpec]) -> str:
    """Return the action that is read as exactly this call: as JSON, if the usual form would be read differently.

    A tool with a single text argument takes `search(text="moons")` as that text, and a name with a space is not a call.
    """
    text = call.text()
    if readable_call(text, tools) == call:
        return text
    return MARKS[0] + _json({"name": call.name, "arguments": call.arguments})


def compact_text(call: ToolCall, tools: Mapping[str, ToolSpec]) -> str:
    """Return the call as text, without quotation marks if it is then read as the same call: `calculator(12 * 7)`."""
    if len(call.arguments) == 1:
        (value,) = call.arguments.values()
        brief = f"{call.name}({value})"
        if isinstance(value, str) and "||" not in value and readable_call(brief, tools) == call:
            return brief
    return exact_text(call, tools)


def readable_call(text: str, tools: Mapping[str, ToolSpec]) -> ToolCall | None:
    """Read a text as a call; return None if it is not a call, or cannot be read as one."""
    try:
        return read_call(text, tools)
    except CallError:
        return None


def read_object(text: str) -> ToolCall:
    """Return the call that a JSON object with `name` and `arguments` (or `parameters`) describes. Raises CallError."""
    return _call_of_json(text)


def _call_of_marked(text: str) -> ToolCall:
    """Return the call after a mark, which is JSON; calls in other notations are already JSON or invalid here."""
    inner = _BEGINNING.sub("", text, count=1).removesuffix("</tool_call>").strip()
    if not inner.startswith(("{", "[")) and (text.startswith(_WITHOUT_JSON) or "<" in inner):
        raise CallError("the call cannot be read: a name, a tag or a bracket is missing")
    return _call_of_json(inner)


def _call_of_json(text: str) -> ToolCall:
    _check_length(text)
    decoded = _decoded(text, "the call is")
    if isinstance(decoded, list) and len(decoded) == 1:
        decoded = decoded[0]
    if not isinstance(decoded, dict):
        raise CallError('the call must be an object such as {"name": "…", "arguments": {…}}')
    return _call_of_object(decoded)


def _decoded(text: str, subject: str) -> Any:
    try:
        return _decoder().decode(text)
    except (ValueError, RecursionError) as error:
        raise CallError(f"{subject} not valid JSON: {_reason(error)}") from None


def _call_of_object(content: dict[str, Any]) -> ToolCall:
    inner = content.get("function")
    if isinstance(inner, dict) and "name" not in content:
        content = inner
    name = content.get("name")
    arguments = content.get("arguments", content.get("parameters", {}))
    if isinstance(arguments, str):  # some models write the object as a text
        arguments = _decoded(arguments, "the arguments are") if arguments.strip() else {}
    if not isinstance(name, str) or not name:
        raise CallError('the call has no "name"')
    if not isinstance(arguments, dict):
        raise CallError('"arguments" must be an object')
    return ToolCall(_storable(name), _values(arguments))


def _arguments(name: str, inside: str, tool: ToolSpec | None) -> dict[str, Any]:
    """Return the arguments between the brackets.

    Arguments of an unknown tool are read if possible, and else dropped.
    """
    properties = tool.properties if tool else {}
    if not inside:
        return {}
    if (
        inside.startswith("{")
        and (by_name := _json_object(inside)) is not None
        and (not tool or set(by_name) & {*properties})
    ):
        return _values(by_name)
    named = _named_values(inside)
    if named is not None and (not tool or set(named) <= {*properties}):
        return _values(named)
    if (single := _single_text(properties)) is not None:
        return {single: _storable(_unquoted(inside))}
    if tool is None:
        return {}
    if named is not None:
        unknown = next(key for key in named if key not in properties)
        raise CallError(f"{name} has no argument {unknown!r}: it takes {', '.join(properties) or 'none'}")
    values = _literals(inside)
    if values is None or len(values) > len(properties):
        expected = ", ".join(f"{key}=…" for key in properties)
        raise CallError(f"the arguments cannot be read: write {name}({expected})")
    return _values(dict(zip(properties, values, strict=False)))


def _single_text(properties: Mapping[str, Any]) -> str | None:
    """Return the name of a tool's only argument, if that is a text."""
    if len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    return name if isinstance(schema, dict) and schema.get("type") == "string" else None


def _named_values(inside: str) -> dict[str, Any] | None:
    """Parse arguments in the form `name=value, …` with JSON or Python values; None for anything else."""
    values: dict[str, Any] = {}
    position = 0
    while key := _KEY.match(inside, position):
        try:
            value, position = _decoder().raw_decode(inside, key.end())
        except (ValueError, RecursionError):
            return _python_named(inside)
        if key[1] in values:
            return None
        values[key[1]] = value
        if position == len(inside.rstrip()):
            return values
        if not (comma := _COMMA.match(inside, position)):
            return _python_named(inside)
        position = comma.end()
    return _python_named(inside)


def _python_call(inside: str) -> ast.Call | None:
    if len(inside) > _MAX_PYTHON:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about some literals
            tree = ast.parse(f"f({inside})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "f" else None


def _python_named(inside: str) -> dict[str, Any] | None:
    call = _python_call(inside)
    if call is None or call.args or any(keyword.arg is None for keyword in call.keywords):
        return None
    try:
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def _literals(inside: str) -> list[Any] | None:
    """Parse Python literals separated by commas."""
    call = _python_call(inside)
    if call is None or call.keywords:
        return None
    try:
        return [ast.literal_eval(value) for value in call.args]
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def _unquoted(inside: str) -> str:
    """Return the text within quotation marks, if it is one quoted literal."""
    if (
        inside[0] in "\"'"
        and (values := _literals(inside)) is not None
        and len(values) == 1
        and isinstance(values[0], str)
    ):
        return values[0]
    return inside


def _json_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; None for anything else."""
    if len(text) > MAX_CALL:
        return None
    try:
        decoded = _decoder().decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=refuse_constant, parse_float=_finite)


def refuse_constant(constant: str) -> NoReturn:
    """Refuse a constant that only Python accepts in JSON, such as NaN."""
    raise ValueError(f"{constant} is no JSON value")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _values(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as JSON values of limited depth that can be stored. Raises CallError."""
    return {_storable(str(key)): _value(value, 1) for key, value in arguments.items()}


def _value(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise CallError(f"the arguments are nested more than {MAX_DEPTH} levels deep")
    match value:
        case None | bool():
            return value
        case str():
            return _storable(value)
        case int():
            if value.bit_length() > 4096:
                raise CallError("a number is too large")
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return [_value(item, depth + 1) for item in value]
        case dict():
            return {_storable(str(key)): _value(item, depth + 1) for key, item in value.items()}
    raise CallError(f"a value of the type {type(value).__name__} is no JSON value")


def _storable(text: str) -> str:
    """Remove what UTF-8 and databases refuse: lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _check_length(text: str) -> None:
    if len(text) > MAX_CALL:
        raise CallError(f"the call has {len(text)} characters: at most {MAX_CALL} are read")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
