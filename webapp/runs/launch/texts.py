"""Values of settings as the texts of form fields, and back."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from envs.adapters.variant_arguments import LIST_SEPARATOR
from webapp.runs.launch import plain_yaml

ENVIRONMENT = "environment.name"
SETTINGS = "environment.settings"
VARIANT = f"{SETTINGS}.id"
"""Setting of an adapter with its variant."""
TEXTAREA_FIELDS = ("environment.instruction", "environment.mix", "sft.mix", "rollout.system")
"""Settings with multi-line texts."""

Kind = Literal["number", "text", "long", "switch", "choice"]


def is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Return True if the annotation is a section of settings."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def is_optional(annotation: Any) -> bool:
    """Return True if the field may be empty."""
    return type(None) in get_args(annotation)


def base_type(annotation: Any) -> Any:
    """Return the annotation without None."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def get_choices(info: FieldInfo) -> tuple[str, ...]:
    """Return the values of a field with a fixed list of values."""
    bare = base_type(info.annotation)
    return tuple(str(choice) for choice in get_args(bare)) if get_origin(bare) is Literal else ()


def get_field_kind(info: FieldInfo, name: str) -> Kind:
    """Return the kind of form field that shows the setting."""
    bare = base_type(info.annotation)
    if name == ENVIRONMENT or get_origin(bare) is Literal:
        return "choice"
    if bare is bool:
        return "switch"
    if bare in (int, float):
        return "number"
    return "long" if name in TEXTAREA_FIELDS else "text"


def data_to_text(value: Any, *, lines: bool = False) -> str:
    """Return the text of a field. `lines`: each entry of a list on its own line, in YAML."""
    match value:
        case None:
            return ""
        case bool():
            return "on" if value else ""
        case float():
            return f"{value:g}" if float(f"{value:g}") == value else repr(value)
        case list() if lines:
            return "\n".join(f"- {_entry_to_text(part)}" for part in value)
        case list() | tuple():
            return ", ".join(str(part) for part in value)
        case dict():
            return ", ".join(f"{key}={_value_to_text(part)}" for key, part in value.items())
    return str(value)


def _value_to_text(value: Any) -> str:
    """Return a value as text for `key=value`, which `pairs` separates at commas."""
    match value:
        case bool():
            return "on" if value else "off"
        case list():
            return "".join(f"{_value_to_text(part)}{LIST_SEPARATOR}" for part in value)
    return data_to_text(value)


def _entry_to_text(entry: Any) -> str:
    """Return an entry of a list of settings as one line of YAML, without empty values."""
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if value not in (None, {})}
    text: str = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    return text.strip().removesuffix("...").strip()


def _text_to_entries(text: str) -> Any:
    """Load a list written in YAML; return the text itself if it is not YAML."""
    try:
        return plain_yaml.load(text)
    except ValueError:
        return text


def pairs(text: str) -> dict[str, str]:
    """Parse `key=value, key=value`."""
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def text_to_data(post: Mapping[str, str], name: str, info: FieldInfo) -> Any:
    """Parse a posted field, for validation by the model."""
    text = post.get(name, "").strip()
    bare = base_type(info.annotation)
    if bare is bool:
        return name in post
    if get_origin(bare) is list and is_model(get_args(bare)[0]) and text:
        return _text_to_entries(text)
    if get_origin(bare) in (list, tuple):
        return [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(bare) is dict:
        return pairs(text)
    if text == "" and (is_optional(info.annotation) or name.startswith(f"{SETTINGS}.")):
        return None
    return text
