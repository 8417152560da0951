"""Cuts settings of a run to the size that sites store."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

MAX_SETTINGS = 96 * 1024
"""Characters of JSON. A site does not import a run whose configuration has more than 128 KiB."""
_WHOLE, _KEPT = 300, 200
"""In settings that are too long: maximum length of an uncut value, and length of the rest of longer values."""


def shortened(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings within MAX_SETTINGS, with their longest values cut, such as the ids of all samples."""
    result: dict[str, Any] = copy.deepcopy(dict(settings))
    for places in (list(_leaves(result)), [(result, name) for name in result]):
        excess = len(_text(result)) - MAX_SETTINGS
        for holder, name in sorted(places, key=lambda place: len(_text(place[0][place[1]])), reverse=True):
            text = _text(holder[name])
            if excess <= 0 or len(text) <= _WHOLE:
                break
            holder[name] = f"{text[:_KEPT]}… (cut, {len(text):,} characters)"
            excess -= len(text) - len(_text(holder[name]))
    size = len(_text(result))
    return result if size <= MAX_SETTINGS else {"left out": f"{len(result):,} settings, {size:,} characters"}


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield container and name of each value that is not an object and contains none."""
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict) or (isinstance(part, list) and any(isinstance(item, dict) for item in part)):
            yield from _leaves(part)
        else:
            yield value, name


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
