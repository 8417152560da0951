"""Former names of settings: accepted wherever settings are read, never written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel


def former_names(model: type[BaseModel]) -> dict[str, str]:
    """Former name → name of the model's own fields, as `setting(…, formerly=…)` declares them."""
    result = {}
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and (former := extra.get("formerly")):
            result[str(former)] = name
    return result


def section_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The model of that field, if the field is a section of settings."""
    field = model.model_fields.get(name)
    kind = field.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def rename_keys(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of one section under current names, in the same order.

    Raises:
        ValueError: a setting is given under both of its names.
    """
    names = former_names(model)
    for former, name in names.items():
        if former in data and name in data:
            raise ValueError(f"{former} is the former name of {name}: keep {name} and remove {former}")
    return {names.get(key, key): value for key, value in data.items()}


def current_name(model: type[BaseModel], name: str) -> str:
    """The current form of a dotted name: algorithm.lam → algorithm.gae_lambda. Unknown names stay as they are."""
    first, dot, rest = name.partition(".")
    section = section_of(model, first)
    if section is not None and dot:
        return f"{first}.{current_name(section, rest)}"
    return former_names(model).get(first, first) + dot + rest


def former_name(model: type[BaseModel], name: str) -> str:
    """The oldest form of a dotted name: the inverse of `current_name`."""
    first, dot, rest = name.partition(".")
    section = section_of(model, first)
    if section is not None and dot:
        return f"{first}.{former_name(section, rest)}"
    oldest = {current: former for former, current in former_names(model).items()}
    return oldest.get(first, first) + dot + rest


def current_names(model: type[BaseModel], names: Iterable[str]) -> dict[str, str]:
    """Each of the dotted names → its current form.

    Raises:
        ValueError: two of them name the same setting.
    """
    result: dict[str, str] = {}
    spelling: dict[str, str] = {}
    for name in names:
        current = current_name(model, name)
        if spelling.setdefault(current, name) != name:
            former = name if name != current else spelling[current]
            raise ValueError(f"{former} is the former name of {current}: keep {current} and remove {former}")
        result[name] = current
    return result


def current_settings(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings, complete or not, under current names; where both names are present, the current one counts."""
    names, result = former_names(model), {}
    for key, value in data.items():
        name = names.get(key, key)
        if name != key and name in data:
            continue
        section = section_of(model, name)
        result[name] = current_settings(section, value) if section and isinstance(value, Mapping) else value
    return result
