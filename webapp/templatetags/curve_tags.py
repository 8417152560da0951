"""Filters for the templates of curves, comparison and evaluation: JSON for scripts, coordinates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import template

from webapp.runs import echo_trap

register = template.Library()


@register.filter
def as_json(value: Any) -> str:
    """JSON for an attribute that a script reads; the template escapes it."""
    return json.dumps(value, separators=(",", ":"))


@register.filter
def get(mapping: Mapping[str, Any], key: str) -> Any:
    """The value of a variable key; empty if it is missing."""
    return mapping.get(key, "")


@register.filter
def millions(count: float) -> str:
    """A rounded count, e.g. “12.3 M”."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f} {letter}"
    return f"{count:.0f}"


@register.filter
def get_trap(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Context of the Echo Trap panel."""
    return echo_trap.panel(snapshot, config)
