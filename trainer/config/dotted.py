"""Settings by dotted name, as in “rollout.groups”, in nested data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class UnknownSetting(ValueError):
    """There is no setting of that `name`: `section` is not a mapping of settings."""

    def __init__(self, name: str, section: str) -> None:
        super().__init__(f"{name}: there is no setting of this name")
        self.name, self.section = name, section


def holder(data: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """Return the mapping that contains a setting, and its key there. Raises UnknownSetting if a section is missing."""
    *sections, last = name.split(".")
    for section in sections:
        inner = data.get(section)
        if not isinstance(inner, dict):
            raise UnknownSetting(name, section)
        data = inner
    return data, last


def put(data: dict[str, Any], name: str, value: Any) -> None:
    """Set a setting. Raises UnknownSetting if a section does not exist."""
    section, last = holder(data, name)
    section[last] = value


def value_at(data: Mapping[str, Any], name: str) -> Any:
    """Return the value of a dotted name; None if it is absent."""
    value: Any = data
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and value of every leaf, that is of every value that is not a mapping."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
