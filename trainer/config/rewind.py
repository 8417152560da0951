"""Settings of a run after a rewind: the original settings with the configured changes and another seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from trainer.config.base import Section
from trainer.seeds import Purpose, derive

Config = TypeVar("Config", bound=Section)
FIELD = "echo_trap.rewind_changes"
MAX_REWINDS = 3
"""Most rewinds after a collapse: the next collapse stops the run."""
SECTIONS = ("rollout", "algorithm", "rewards", "optimizer")
"""Sections that a rewind may change: model, environments and evaluation are fixed, for comparability."""


def with_changes(
    config: Config, changes: Mapping[str, str], rewinds: int, collapses: int, since: Mapping[str, int]
) -> Config:
    """Apply the changes of a run's rewinds after collapses, and the seed of its last rewind, to its settings.

    A change that begins with `*` multiplies, once per collapse: `*0.5` is a half after the first, a quarter after the
    second. Any other change is the new value; an empty one turns the setting off, if possible. The seed differs after
    each rewind: otherwise the same rollouts would be repeated. The result does not rewind again.

    Args:
        rewinds: number of all rewinds, from 1.
        collapses: number of rewinds that followed a collapse.
        since: number of collapses before the present value of a setting was chosen, by name; 0 for other settings.

    Raises:
        ValueError: a change names a setting that does not exist or may not change, or makes the settings invalid.
    """
    data = config.model_dump()
    for name, text in changes.items():
        section, _, field = name.partition(".")
        if section not in SECTIONS:
            raise ValueError(f"{FIELD} may name settings of {', '.join(SECTIONS)}, not {name!r}")
        if field not in data[section]:
            raise ValueError(f"{FIELD}: there is no setting {name!r}")
        if times := collapses - since.get(name, 0):
            data[section][field] = _changed(name, data[section][field], text.strip(), times)
    data["seed"] = derive(data["seed"], Purpose.REWIND, rewinds)
    data["echo_trap"]["action"] = "none"  # avoids validating the rewinds of these settings again
    try:
        return type(config).model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(
            f"{FIELD} cannot be applied {collapses}×: {where + ': ' if where else ''}{first['msg']}"
        ) from None


def _changed(name: str, old: Any, text: str, times: int) -> Any:
    if not text.startswith("*"):
        return text or None
    if isinstance(old, bool) or not isinstance(old, int | float):
        raise ValueError(f"{FIELD}: {name} is {old!r}, which cannot be multiplied: set the new value")
    try:
        factor = float(text[1:])
    except ValueError:
        raise ValueError(f"{FIELD}: {name}: {text!r} is not * and a number") from None
    product = old * factor**times
    return max(1, round(product)) if isinstance(old, int) else product


def changes_as_text(before: Section, after: Section) -> dict[str, str]:
    """Return the differences of two configurations as texts, by dotted name; without the seed."""
    differences = before.differences(after)
    return {name: _text(value) for name, _, value in differences if name.partition(".")[0] in SECTIONS}


def _text(value: object) -> str:
    match value:
        case None:
            return "off"
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(f"{key}={_text(part)}" for key, part in value.items())
    return str(value)
