"""Settings of a run within the size that sites store."""

from __future__ import annotations

import json
from typing import Any

from echoscope.recording.call_values import CallValues

MAX_SETTINGS_BYTES = 120 * 1024
"""Of 128 KiB for the whole configuration (webapp/ingest/imports.py), with title, tags and environment."""


def fitting_settings(settings: dict[str, Any], values: CallValues) -> dict[str, Any]:
    """The settings, the largest values replaced by their size until the rest fits, with a warning that names them."""
    left_out: list[str] = []
    while (size := _size(settings)) > MAX_SETTINGS_BYTES:
        path = _path_of_largest(settings)
        settings = _replaced(settings, path)
        left_out.append(".".join(path))
        if _size(settings) >= size:  # nothing large is left, only very many settings
            return {"left out": f"{size:,} bytes of settings"}
    if left_out:
        values.warn(
            "config",
            f"The settings have more than the {MAX_SETTINGS_BYTES:,} bytes that sites store: {', '.join(left_out):.200}"
            " is left out.",
        )
    return settings


def _size(value: Any) -> int:
    return len(json.dumps(value))


def _path_of_largest(settings: dict[str, Any]) -> list[str]:
    """The path to the innermost value that has more than half of the settings around it."""
    path: list[str] = []
    inner: Any = settings
    while isinstance(inner, dict) and inner:
        name = max(inner, key=lambda name: _size(inner[name]))
        if path and _size(inner[name]) < _size(inner) // 2:
            break
        path.append(name)
        inner = inner[name]
    return path


def _replaced(settings: dict[str, Any], path: list[str]) -> dict[str, Any]:
    name, *rest = path
    inner = _replaced(settings[name], rest) if rest else f"[left out: {_size(settings[name]):,} bytes]"
    return settings | {name: inner}
