"""Roles of text settings: kinds of things that a text names, so that a site can check it before a run starts.

A setting declares its role in its type: `path: Annotated[str, TextRole.PATH]`. A text without a role counts as a path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


class TextRole(Enum):
    """Kind of thing that a text setting names."""

    PLAIN = "plain"
    """Nothing on a machine or network: shown, compared, looked up in a registry, or part of a prompt or request."""
    PATH = "path"
    """A file or folder of the worker that is read; empty = none."""
    MODEL = "model"
    """A model: built in, on a hub, or in a folder."""
    URL = "url"
    """An address that the worker connects to; empty = none."""
    VARIABLE = "variable"
    """An environment variable of the worker."""
    COMMAND = "command"
    """A command that the worker runs; empty = none."""
    ENVIRONMENT = "environment"
    """Settings of an environment, whose own model declares the roles of its texts."""


@dataclass(frozen=True)
class TextSetting:
    """A text in settings that differs from its default: dotted name of the setting, its role, the text."""

    name: str
    role: TextRole
    text: str


_CLOSED = (bool, int, float, complex, type(None))
"""Types with values that contain no text."""


def declared_role(field: FieldInfo) -> TextRole | None:
    """Return the role that a field's type declares, outside or in its parts; None without one or with several."""
    roles = {item for item in field.metadata if isinstance(item, TextRole)} or set(_roles_within(field.annotation))
    return roles.pop() if len(roles) == 1 else None


def undeclared(model: type[BaseModel]) -> list[str]:
    """Return dotted names of fields of a settings model that may contain text but declare no role."""
    names = []
    for name, field in model.model_fields.items():
        inner = list(_models_within(field.annotation))
        if inner:
            names += [f"{name}.{part}" for inner_model in inner for part in undeclared(inner_model)]
        if declared_role(field) is None and _may_hold_text(field.annotation):
            names.append(name)
    return names


def text_settings(settings: BaseModel, prefix: str = "") -> Iterator[TextSetting]:
    """Yield the texts of settings that differ from their defaults, with their roles; PATH if none is declared.

    A role covers every text within its field, including keys, except in nested models.
    """
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if not isinstance(value, BaseModel) and value == field.get_default(call_default_factory=True):
            continue
        default_role = TextRole.PATH if _may_hold_text(field.annotation) else None
        yield from _texts(f"{prefix}{name}", value, declared_role(field) or default_role)
    for name, value in (settings.model_extra or {}).items():
        yield from _texts(f"{prefix}{name}", value, TextRole.PATH)


def _texts(name: str, value: Any, role: TextRole | None) -> Iterator[TextSetting]:
    """Yield the texts of a value. Without a role, its texts are options listed by its type, and are left out."""
    match value:
        case BaseModel():
            yield from text_settings(value, f"{name}.")
        case Enum() | None | bool() | int() | float() | complex():
            return
        case Mapping():
            for key, part in value.items():
                yield from _texts(name, key, role)
                yield from _texts(name, part, role)
        case list() | tuple() | set() | frozenset():
            for part in value:
                yield from _texts(name, part, role)
        case _ if role is not None:  # a text, a path, or a value of a type that is unknown here
            yield TextSetting(name, role, value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def _roles_within(annotation: Any) -> Iterator[TextRole]:
    if isinstance(annotation, TextRole):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _roles_within(part)


def _models_within(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _models_within(part)


def _may_hold_text(annotation: Any) -> bool:
    """Return True if a value of that type may contain a text that the type does not list, or the type is unknown."""
    origin = get_origin(annotation)
    if origin is Literal or annotation in (*_CLOSED, Ellipsis):
        return False
    if origin is Annotated:
        return _may_hold_text(get_args(annotation)[0])
    if isinstance(annotation, type) and origin is None:
        return not issubclass(annotation, (*_CLOSED, Enum, BaseModel))
    parts = get_args(annotation)
    return not parts or any(_may_hold_text(part) for part in parts)
