"""A tool, made of its definition and its function; checks of arguments, and execution of calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envs.base import CallRecord, ToolSpec
from envs.tools.calls import CallError, ToolCall, read_call

MAX_RESULT = 20_000
"""Maximum length of a result in characters, whatever the environment's settings."""
ERROR = "Error: "
"""Beginning of the result of a call that failed."""
CUT = "…"

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class ToolError(Exception):
    """A tool has no result for these arguments. The policy reads the message."""


@dataclass(frozen=True)
class Tool:
    """A function with its definition.

    Attributes:
        spec: name, description, and the arguments as a JSON schema.
        run: takes the checked arguments by keyword and returns the result as text. It may raise ToolError.
    """

    spec: ToolSpec
    run: Callable[..., str]


def text_tool(name: str, description: str, argument: str, about: str, run: Callable[[str], str]) -> Tool:
    """Return a tool with a single text as its argument."""
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": about}},
        "required": [argument],
    }
    spec = ToolSpec(name=name, description=description, parameters=schema)
    return Tool(spec, lambda **arguments: run(arguments[argument]))


class Toolbox:
    """The tools of an environment, by name.

    Args:
        tools: tools with different names.
        max_result: characters of a result; longer results are cut.
    """

    def __init__(self, tools: Iterable[Tool], max_result: int = MAX_RESULT) -> None:
        self.tools = {tool.spec.name: tool for tool in tools}
        self.max_result = min(max_result, MAX_RESULT)

    @property
    def specs(self) -> dict[str, ToolSpec]:
        """Return the definitions by name."""
        return {name: tool.spec for name, tool in self.tools.items()}

    def execute(self, text: str) -> CallRecord | None:
        """Execute the call in a text; None if the text is not a call.

        A call that cannot be read, has unsuitable arguments or fails is recorded with the reason as its result: no text
        of a policy raises an exception.
        """
        try:
            call = read_call(text, self.specs)
        except CallError as error:
            return self._failure("", {}, str(error))
        if call is None:
            return None
        if (tool := self.tools.get(call.name)) is None:
            names = ", ".join(self.tools)
            return self._failure(call.name, call.arguments, f"there is no tool {call.name[:100]!r}: choose {names}")
        try:
            arguments = checked_arguments(call, tool.spec)
            return CallRecord(tool=call.name, arguments=arguments, result=self._cut(tool.run(**arguments)))
        except (CallError, ToolError) as error:
            return self._failure(call.name, call.arguments, str(error))

    def _failure(self, tool: str, arguments: dict[str, Any], reason: str) -> CallRecord:
        return CallRecord(tool=tool, arguments=arguments, result=self._cut(f"{ERROR}{reason}"), failed=True)

    def _cut(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}").strip()
        return text if len(text) <= self.max_result else text[: self.max_result - len(CUT)] + CUT


def checked_arguments(call: ToolCall, spec: ToolSpec) -> dict[str, Any]:
    """Return the arguments after checking names, types and listed values against the tool's schema.

    A number written as a text is converted, since small models often put quotation marks around numbers. Other
    requirements of a schema are left to the tool.

    Raises:
        CallError: an argument is missing, unknown or of another type.
    """
    properties, required = spec.properties, spec.parameters.get("required", [])
    for name in required if isinstance(required, list) else []:
        if name not in call.arguments:
            raise CallError(f"{spec.name} needs the argument {name!r}")
    if spec.parameters.get("additionalProperties", False) is False:
        for name in call.arguments:
            if name not in properties:
                raise CallError(f"{spec.name} has no argument {name!r}: it takes {', '.join(properties) or 'none'}")
    return {name: _checked(name, value, properties.get(name, {})) for name, value in call.arguments.items()}


def _checked(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    declared = schema.get("type")
    types = [declared] if isinstance(declared, str) else list(declared) if isinstance(declared, list) else []
    accepted = tuple(kind for type_name in types for kind in _TYPES.get(str(type_name), ()))
    if isinstance(value, str) and accepted and str not in accepted:
        value = _converted(value, accepted)
    if accepted and (not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted)):
        expected = " or ".join(map(str, types))
        raise CallError(f"the argument {name!r} must be of the type {expected}, not {json.dumps(value)[:60]}")
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        allowed = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices[:20])
        raise CallError(f"the argument {name!r} must be one of {allowed}")
    return value


def _converted(text: str, accepted: tuple[type, ...]) -> Any:
    """Convert a text to the number that it contains; else return it unchanged."""
    for kind in (int, float):
        if kind in accepted:
            try:
                number = kind(text)
            except ValueError:
                continue
            return number if abs(number) < 1e300 else text
    return text
