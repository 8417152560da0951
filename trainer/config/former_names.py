"""Former names of settings: accepted wherever settings are read, never written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True)
class FormerParts:
    """Former settings that are one setting now.

    Attributes:
        names: of the former settings.
        join: values of some or all of them, by name → value of the setting. Raises ValueError.
        split: value of the setting, as dumped → value of each former setting, by name.
    """

    names: tuple[str, ...]
    join: Callable[[Mapping[str, Any]], Any]
    split: Callable[[Any], dict[str, Any]]


def former_parts(model: type[BaseModel]) -> Mapping[str, FormerParts]:
    """Name of each of the model's own fields that replaces several settings → those settings."""
    parts: Mapping[str, FormerParts] = getattr(model, "FORMER_PARTS", {})
    return parts


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
    """The data of one section under current names.

    Raises:
        ValueError: a setting is given under both of its names, or its former parts do not fit together.
    """
    names = former_names(model)
    for former, name in names.items():
        if former in data and name in data:
            raise ValueError(f"{former} is the former name of {name}: keep {name} and remove {former}")
    result = {names.get(key, key): value for key, value in data.items()}
    for name, parts in former_parts(model).items():
        values = {part: result.pop(part) for part in parts.names if part in result}
        if values and name in result:
            former = ", ".join(values)
            raise ValueError(f"{former} is a former part of {name}: keep {name} and remove {former}")
        if values:
            result[name] = parts.join(values)
    return result


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


def joined_name(model: type[BaseModel], name: str) -> str | None:
    """The setting that a dotted name is a former part of: environment.others → environment.mix; else None."""
    first, dot, rest = name.partition(".")
    section = section_of(model, first)
    if section is not None and dot:
        inner = joined_name(section, rest)
        return f"{first}.{inner}" if inner else None
    return next((setting for setting, parts in former_parts(model).items() if first in parts.names), None)


def split_overridden(model: type[BaseModel], data: dict[str, Any], names: Iterable[str]) -> None:
    """Replace settings of the complete `data` by their former parts where one of the dotted names overrides a part."""
    for setting in {joined for name in names if (joined := joined_name(model, name))}:
        *path, last = setting.split(".")
        section, section_model = data, model
        for part in path:
            section, section_model = section[part], section_of(section_model, part) or section_model
        section |= former_parts(section_model)[last].split(section.pop(last))


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
    for name in result:
        setting = joined_name(model, name)
        if setting is not None and setting in spelling:
            raise ValueError(f"{name} is a former part of {setting}: keep {setting} and remove {name}")
    return result


def current_settings(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings, complete or not, under current names; where both names are present, the current one counts.

    Former parts that do not fit together stay as they are.
    """
    names, result = former_names(model), {}
    for key, value in data.items():
        name = names.get(key, key)
        if name != key and name in data:
            continue
        section = section_of(model, name)
        result[name] = current_settings(section, value) if section and isinstance(value, Mapping) else value
    for name, parts in former_parts(model).items():
        values = {part: result[part] for part in parts.names if part in result}
        if values and name not in result:
            try:
                result[name] = parts.join(values)
            except ValueError:
                continue
        if name in result:
            result = {key: value for key, value in result.items() if key not in parts.names}
    return result
