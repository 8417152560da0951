"""Values of overrides in text form, as in `--set section.field=value`."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

import envs

SETTINGS = ["environment", "settings"]
EMPTY = ("", "null", "~")
"""Texts that leave an optional field empty."""


def parse_value(text: str, annotation: Any) -> Any:
    """Parse the text of a value for a field with that annotation.

    A pure text field takes the text literally, without surrounding white space: YAML would read another value from “a:
        b”, “007”, “on” or “a # b”. Text in quotes is a YAML string, so that escapes can write line breaks. The values
        of all other fields are YAML.

    Raises:
        ValueError: the field takes YAML, and the text is not valid YAML.
    """
    plain = text.strip()
    only_text, optional = _text_field(annotation)
    if only_text and optional and plain in EMPTY:
        return None
    quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'"
    if only_text and not quoted:
        return plain
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # a date that the calendar does not have
        if only_text:
            return plain
        raise ValueError("the value is not valid YAML; quote special characters") from None
    return value if isinstance(value, str) or not only_text else plain


def get_annotation(model: type[BaseModel], path: Sequence[str], environment: str) -> Any:
    """Return the annotation of a field of the settings; None if there is no such field.

    Args:
        path: names of the sections and of the field.
        environment: name of the environment that owns `environment.settings`.
    """
    kind: Any = model
    for depth, name in enumerate(path):
        if list(path[:depth]) == SETTINGS:
            kind = envs.settings_model(environment) if environment in envs.names() else None
        fields: Mapping[str, Any] = getattr(kind, "model_fields", {})
        if name not in fields:
            return None
        kind = fields[name].annotation
    return kind


def _text_field(annotation: Any) -> tuple[bool, bool]:
    """Return whether the field takes only text, and whether it may be empty."""
    kinds = _alternatives(annotation)
    return set(kinds) in ({str}, {str, types.NoneType}), types.NoneType in kinds


def _alternatives(annotation: Any) -> list[Any]:
    """Return the types of a union, the types of a Literal's values, or the type itself."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _alternatives(inner[0])
    if origin is Literal:
        return [type(value) for value in inner]
    if origin in (Union, types.UnionType):
        return [kind for part in inner for kind in _alternatives(part)]
    return [annotation]
