"""Converts actions of a turn, as trainers pass them, to actions of the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from echoscope.recording.call_values import MAX_COUNT, CallValues
from echoscope.recording.json_values import as_json, items_in

MAX_ACTIONS = 200
"""Maximum number of actions in a turn that a site stores."""
MAX_ARGUMENTS = 32 * 1024
"""Maximum length of the arguments of a call, as JSON."""
_FIELDS = {"text", "status", "name", "reward", "effective", "actual", "board", "hint", "call"}
_GROUNDS = {"floor", "wall", "tile", "goal", "danger", "good", "bad"}
_TONES = {*_GROUNDS, "white", "yellow", "orange", "red", "green", "blue", "piece", "player"}


def action_record(action: Any, values: CallValues) -> dict[str, Any]:
    """Return an action with the fields of docs/journal.md; others are left out with a warning."""
    if not isinstance(action, Mapping):
        text = action if isinstance(action, str) else values.text("an action", action)
        action = {"text": text}
    if others := sorted({str(name) for name in action} - _FIELDS):
        values.warn(
            "fields of actions",
            f"An action has the fields {', '.join(others):.200}, which are not recorded: pass them as further keywords "
            "of turn().",
        )
    text = values.text("text of an action", action.get("text") or action.get("name"))
    status, effective = action.get("status"), action.get("effective")
    known = ("executed", "ignored", "illegal")
    record: dict[str, Any] = {
        "text": text,
        "status": known[0] if status is None else values.choice("status of an action", status, known),
        "name": values.text("name of an action", action["name"]) if action.get("name") is not None else text,
        "reward": values.number("reward of an action", action.get("reward")) or 0.0,
        "effective": effective is None or values.flag("effective of an action", effective) is True,
    }
    if action.get("actual") is not None:
        record["actual"] = values.text("actual of an action", action["actual"])
    if isinstance(action.get("call"), Mapping):
        record["call"] = _call(action["call"], values)
    record["board"] = board_record(action.get("board"), values)
    record["hint"] = _hint(action["hint"], values) if isinstance(action.get("hint"), Mapping) else None
    return {name: value for name, value in record.items() if value is not None}


def board_record(board: Any, values: CallValues) -> dict[str, Any] | None:
    """Return a board of the kind text or grid for the journal; anything else is drawn as its text."""
    if board is None:
        return None
    if isinstance(board, Mapping) and board.get("kind") == "grid" and isinstance(board.get("rows"), list | tuple):
        rows = [values.text("rows of a board", row) for row in board["rows"]]
        grid = {"kind": "grid", "theme": values.text("theme of a board", board.get("theme")), "rows": rows}
        legend = board.get("legend")
        return grid | ({"legend": _legend(legend, values)} if isinstance(legend, Mapping) else {})
    if isinstance(board, Mapping) and board.get("kind") == "text":
        board = board.get("text")
    return {"kind": "text", "text": values.text("board", board)}


def _legend(legend: Mapping[Any, Any], values: CallValues) -> dict[str, Any]:
    symbols = {}
    for character, meaning in legend.items():
        fields = meaning if isinstance(meaning, Mapping) else {"name": meaning}
        symbol = {"name": values.text("name in a legend", fields.get("name"))[:40] or str(character)[:40] or "?"}
        if isinstance(fields.get("tone"), str) and fields["tone"] in _TONES:
            symbol["tone"] = fields["tone"]
        if isinstance(fields.get("glyph"), str):
            symbol["glyph"] = values.text("glyph in a legend", fields["glyph"])[:4]
        symbols[values.text("character of a legend", character)] = symbol
    return symbols


def _call(call: Mapping[Any, Any], values: CallValues) -> dict[str, Any]:
    arguments = as_json(call.get("arguments"))
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"arguments": arguments}
    if len(text := json.dumps(arguments, ensure_ascii=False)) > MAX_ARGUMENTS:
        arguments = {"arguments": text}
    return {
        "tool": values.text("tool of a call", call.get("tool")),
        "arguments": arguments,
        "result": values.text("result of a call", call.get("result")),
        "failed": values.flag("failed of a call", call.get("failed")) is True,
    }


def _hint(hint: Mapping[Any, Any], values: CallValues) -> dict[str, Any]:
    record = {
        "actions": [values.text("actions of a hint", action) for action in items_in(hint.get("actions"))],
        "distance": values.whole("distance of a hint", hint.get("distance"), 0, MAX_COUNT),
        "value": values.number("value of a hint", hint.get("value")),
        "solvable": values.choice("solvable of a hint", hint.get("solvable", "yes"), ("yes", "no", "unknown")),
        "reason": None if hint.get("reason") is None else values.text("reason of a hint", hint["reason"]),
    }
    return {name: value for name, value in record.items() if value is not None}
