"""Reads actions of an OpenEnv server, which are JSON objects, from an agent's text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_RESERVED = "metadata"
"""A field of every action that contains nothing about the environment."""
_SWITCHES = {"true": True, "yes": True, "false": False, "no": False}


class UnreadableActionError(ValueError):
    """The text cannot be read as an action. The message says what is expected."""


class ActionReader:
    """Reads actions: the text is the value of one field, or a JSON object with several.

    Args:
        schema: JSON schema of an action; empty if the server has none.
        chosen: name of the field that the text fills; empty: the only field, or the only required one.
    Raises:
        ValueError: the server's actions have no field of that name.
    """

    def __init__(self, schema: Mapping[str, Any], chosen: str = "") -> None:
        definitions = schema.get("$defs") or {}
        properties = schema.get("properties") or {}
        self._fields = {name: _resolved(spec, definitions) for name, spec in properties.items() if name != _RESERVED}
        if chosen and self._fields and chosen not in self._fields:
            raise ValueError(
                f"its actions have no field {chosen!r}: choose among {', '.join(self._fields)} (setting action_field)"
            )
        required = [name for name in schema.get("required") or () if name in self._fields]
        candidates = required or list(self._fields)
        self.field = chosen or (candidates[0] if len(candidates) == 1 else "")
        self._required = required

    def read(self, text: str) -> dict[str, Any]:
        """Return the action that a text means. Raises UnreadableActionError."""
        text = text.strip()
        if (whole := _json_object(text)) is not None and (not self.field or set(whole) <= set(self._fields)):
            return whole
        if not self.field:
            raise UnreadableActionError(f"an action is a JSON object such as {self.example}")
        return {self.field: _value(text, self._fields.get(self.field, {}), self.field)}

    @property
    def example(self) -> str:
        """Return an action as JSON, with the type of each field in its place."""
        names = self._required or list(self._fields)
        return json.dumps({name: self._fields[name].get("type", "…") for name in names} or {"field": "value"})

    @property
    def instruction(self) -> str:
        """Describe the form of an action for the agent."""
        if not self.field:
            lines = [f"An action is a JSON object such as {self.example}."]
            return "\n".join(lines + [f"{name}: {_about(spec)}" for name, spec in self._fields.items()])
        spec = self._fields.get(self.field, {})
        return f"An action is the value of {self.field}: {_about(spec)}"


def _resolved(spec: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field without references, and without null as an alternative."""
    for _ in range(5):  # deeper nesting is left to the server
        if not isinstance(spec, dict):
            return {}
        if isinstance(target := spec.get("$ref"), str):
            spec = {**_mapping(definitions.get(target.rpartition("/")[2])), **_without(spec, "$ref")}
        elif isinstance(choices := spec.get("anyOf"), list):
            real = [choice for choice in choices if isinstance(choice, dict) and choice.get("type") != "null"]
            spec = {**_without(spec, "anyOf"), **(real[0] if len(real) == 1 else {})}
        else:
            break
    return _mapping(spec)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _without(spec: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != key}


def _about(spec: Mapping[str, Any]) -> str:
    kind = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(
        str(spec.get("type")), "JSON"
    )
    values = spec.get("enum")
    if isinstance(values, list) and values:
        kind = f"one of {', '.join(map(str, values))}"
    about = " ".join(str(spec.get("description") or "").split())
    return f"{kind}. {about}".strip() if about else f"{kind}."


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _value(text: str, spec: Mapping[str, Any], name: str) -> Any:
    """Convert the text to the type of its field. A field of unknown type gets the text unchanged."""
    kind = spec.get("type")
    try:
        match kind:
            case "integer":
                return int(text)
            case "number" if math.isfinite(number := float(text)):
                return number
            case "number":
                raise ValueError
            case "boolean":
                return _SWITCHES[text.lower()]
            case "object" | "array":
                return json.loads(text)
    except (ValueError, KeyError, RecursionError):
        raise UnreadableActionError(f"{name} is {_about(spec)}") from None
    return text
