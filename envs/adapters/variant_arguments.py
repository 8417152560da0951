"""Arguments of another package's environment in the settings of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from envs.text_roles import TextRole

Scalar = bool | int | float | str
LIST_SEPARATOR = ";"
"""Separator of the values of a list that is written as a text, as in a form."""
_TEXT = re.compile(r"[\w .,+*=x-]{0,80}")
_SWITCHES = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False, "": False}


def _parsed(value: Any) -> Any:
    """Convert a form's texts to numbers and switches."""
    if not isinstance(value, Mapping):
        return value
    return {key: _from_text(item) if isinstance(item, str) else item for key, item in value.items()}


def _from_text(text: str) -> Scalar | list[Scalar]:
    if LIST_SEPARATOR in text:
        return [_scalar(part.strip()) for part in text.split(LIST_SEPARATOR) if part.strip()]
    return _scalar(text)


def _scalar(text: str) -> Scalar:
    if text.lower() in _SWITCHES:
        return _SWITCHES[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _checked(arguments: dict[str, Any]) -> dict[str, Any]:
    for name, value in arguments.items():
        if not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"{name!r} cannot be the name of an argument")
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not _TEXT.fullmatch(text):
                raise ValueError(
                    f"{name}: a text has at most 80 letters, digits, spaces and signs of .,+*=-_, no path: {text!r}"
                )
    return arguments


Arguments = Annotated[
    dict[str, Scalar | list[Scalar]], TextRole.PLAIN, BeforeValidator(_parsed), AfterValidator(_checked)
]
"""Name → value. Texts contain no path: a package may read the file that it names."""


def as_key(arguments: Mapping[str, Any]) -> str:
    """Return the arguments as a text, for caches."""
    return json.dumps(arguments, sort_keys=True)


def from_key(key: str) -> dict[str, Any]:
    """Return the arguments in such a text."""
    arguments: dict[str, Any] = json.loads(key)
    return arguments
