"""Texts that players show for another trainer's turn: the response without thought and calls, and further fields.

For the notebook's player. The site, which works without this package, has the same functions in
webapp/trajectories/turn_text.py; a test compares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_OPENED = re.compile(r"<think>\s*$")
_CLOSED = re.compile(r"^\s*</think>")
_LINE_ENDS = "\r\n"
MAX_EXTRA = 8000
"""Characters of further fields that a page shows; as in static/js/ui/turn_text.js."""


def response_text(turn: Mapping[str, Any]) -> str:
    """Return the response without what the turn shows elsewhere.

    Left out are the thought with its tags, lines that equal the text of a call, and a response that is the name of
    the only action. White space within the text is kept.
    """
    text: str = turn.get("response") or ""
    thought, actions = turn.get("thought") or "", turn.get("actions") or []
    if thought:
        text_before, opening_tag, after = text.partition(thought)
        text = _OPENED.sub("", text_before) + _CLOSED.sub("", after) if opening_tag else text
    for action in actions:
        if action.get("call"):
            text = f"\n{text}\n".replace(f"\n{action['text']}\n", "\n", 1)[1:-1]
    text = text.strip(_LINE_ENDS)
    only = actions[0] if len(actions) == 1 else {}
    return "" if only and text.strip() in (only["text"], only.get("name")) else text


def extra_text(extra: Mapping[str, Any] | None, actions: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return further fields that a recorder added, as indented JSON; empty without any.

    If the turn has `actions`, the tool calls that these show are left out.
    """
    called = any(action.get("call") for action in actions)
    fields = {name: value for name, value in (extra or {}).items() if not called or name != "tool_calls"}
    if not fields:
        return ""
    text = _json_text(_as_in_scripts(fields))
    if len(text) <= MAX_EXTRA:
        return text
    return f"{text[:MAX_EXTRA]}…\n{len(text) - MAX_EXTRA:,} more characters are in the export."


def _json_text(value: Any) -> str:
    """Return indented JSON, or JSON on one line if nesting would multiply the text; as on the site."""
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    indented = json.dumps(value, ensure_ascii=False, indent=2)
    return compact if len(indented) > max(100_000, 4 * len(compact)) else indented


def _as_in_scripts(value: Any) -> Any:
    """Convert numbers in a value to the form in which scripts write them: 1 and not 1.0."""
    if isinstance(value, dict):
        return {name: _as_in_scripts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_in_scripts(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
