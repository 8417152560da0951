"""Bodies of the requests that launch runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Visibility = Literal["private", "team", "link"]
Priority = Literal["low", "normal", "high"]


def requested(
    preset: str | None,
    config: Mapping[str, Any] | None,
    overrides: Mapping[str, Any] | None,
    visibility: Visibility,
    group: str,
) -> dict[str, Any]:
    """Return the body of a launch, without omitted fields."""
    given = {"preset": preset, "config": None if config is None else dict(config), "group": group or None}
    body = {name: value for name, value in given.items() if value is not None}
    return {"overrides": dict(overrides or {}), "visibility": visibility, **body}


def resource_fields(queue: str | None, gpus: int | None, priority: Priority) -> dict[str, Any]:
    """Return request fields that differ from their defaults, since older sites reject unknown fields."""
    fields = {"queue": queue, "gpus": gpus, "priority": None if priority == "normal" else priority}
    return {name: value for name, value in fields.items() if value is not None}
