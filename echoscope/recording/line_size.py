"""Shortens lines of the journal that are longer than sites read, before they are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from echoscope.recording.harmless import OnceWarnings

MAX_LINE_BYTES = 1024 * 1024
"""Maximum size of a line that sites read (webapp/ingest/limits.py). Its texts have at most 64 Ki characters there."""

Event = dict[str, Any]


def fitting_line(event: Event, warnings: OnceWarnings) -> tuple[Event, bytes]:
    """Return the event as it is written, and its line. Longer events lose, with a warning, as little as possible.

    Raises:
        ValueError: the event is too long even without its texts.
    """
    line = _line(event)
    if len(line) <= MAX_LINE_BYTES:
        return event, line
    size = len(line)
    for shorten in _STEPS:
        event = shorten(event)
        line = _line(event)
        if len(line) <= MAX_LINE_BYTES:
            break
    else:
        raise ValueError(
            f"the event has {size:,} bytes, and sites read at most {MAX_LINE_BYTES:,}: record less at once"
        )
    warnings.once(
        f"size of {event['type']}",
        f"An event of type {event['type']} has {size:,} bytes, and sites read at most {MAX_LINE_BYTES:,}: its long "
        "texts were cut, as the site would do. Record less at once. Later ones are cut without a warning.",
    )
    return event, line


def cut(value: Any, limit: int) -> Any:
    """Cut each text in a value to this number of characters."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]} … [{len(value) - limit:,} more characters]"
    if isinstance(value, list):
        return [cut(inner, limit) for inner in value]
    if isinstance(value, dict):
        return {cut(name, limit): cut(inner, limit) for name, inner in value.items()}
    return value


def _line(event: Event) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _without_details(event: Event) -> Event:
    """Remove extras, and from a turn everything in its actions except their texts."""
    event = cut({name: value for name, value in event.items() if name != "extra"}, 4 * 1024)
    if "actions" in event:
        kept = ("text", "status", "name", "reward", "effective")
        event["actions"] = [{name: action[name] for name in kept if name in action} for action in event["actions"]]
    return event


_STEPS: tuple[Callable[[Event], Event], ...] = (
    lambda event: cut(event, 64 * 1024),
    lambda event: cut(event, 16 * 1024),
    _without_details,
    lambda event: cut(event, 200),
)
