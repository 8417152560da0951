"""What the templates of curves, comparison and evaluation need: data for scripts, numbers as coordinates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import template

from webapp.runs import echo_trap

register = template.Library()


@register.filter
def as_json(value: Any) -> str:
    """For an attribute that a script reads; the template escapes it."""
    return json.dumps(value, separators=(",", ":"))


@register.filter
def get(mapping: Mapping[str, Any], key: str) -> Any:
    """The value of a key that is a variable; nothing where there is none."""
    return mapping.get(key, "")


@register.filter
def hundredths(share: float) -> str:
    """A share as a coordinate in a drawing that is 100 wide."""
    return f"{100 * share:.2f}"


@register.filter
def millions(count: float) -> str:
    """Tokens for people, as in “12.3 M”."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f} {letter}"
    return f"{count:.0f}"


@register.filter
def trap_of(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """What the panel of the Echo Trap watch says beside the snapshot."""
    return echo_trap.shown(snapshot, config)
