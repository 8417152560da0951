"""Settings by dotted name, as in “rollout.groups”, in nested data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class UnknownSetting(ValueError):
    """There is no setting of that `name`: `section` is no mapping of settings."""

    def __init__(self, name: str, section: str) -> None:
        super().__init__(f"{name}: there is no setting of this name")
        self.name, self.section = name, section


def holder(data: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """The mapping that a setting is in, and its name there. Raises UnknownSetting if a section does not exist."""
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


def leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and value of everything that is no mapping."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
