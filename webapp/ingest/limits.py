"""Limits on the journal's events, so that a few kilobytes sent cannot become pages of many megabytes.

Journals come from training processes and, by import, from anywhere. Long texts are cut, so that a run remains
shown; what cannot be cut makes a line invalid. docs/journal.md lists the limits.
"""

from __future__ import annotations

import json
import math
import operator
import re
from typing import Any, TypeVar

from pydantic import BaseModel

from envs.base import CallRecord, GridBoard, TextBoard
from trainer.journal import events as journal
from trainer.journal import token_arrays
from trainer.journal.observation_images import MAX_TURN_IMAGES
from trainer.journal.reader import JournalError
from trainer.journal.token_arrays import MAX_TOKENS

MAX_LINE_BYTES = 1024 * 1024
MAX_TEXT = 64 * 1024
"""Maximum characters of any text: a state, a response, a thought, an answer, a prompt."""
MAX_MESSAGE = 4 * 1024
MESSAGES = {"message", "error", "reason", "problem"}
"""Fields with at most MAX_MESSAGE characters: pages show many of them."""
MAX_SIDE = 200
"""Maximum cells on each side of a grid."""
MAX_METRICS = 1000
MAX_MEMBERS = 4096
"""Maximum trajectories of a group."""
MAX_ACTIONS = 200
"""Maximum actions of a turn; the trainer executes at most 100."""
MAX_TURNS = 1000
"""Maximum turns of a trajectory; the trainer plays at most 100."""
MAX_TURN_BYTES = 128 * 1024
"""Maximum JSON of a turn. A trajectory has many turns, and pages show all of it."""
SHORT_TEXT, SHORT_NAME = 16 * 1024, 200
"""Maximum characters of the texts, and of the actions' names, in a turn that would be larger."""
MAX_TIME = 253_402_300_799.0
"""Seconds since the epoch to the end of the year 9999."""
WIDE = {"seq", "seed", "parameters", "tokens", "bytes", "done", "total", "iterations"}
"""Integers of 64 bits; all others have 32."""
UNLIMITED = {"config", "data"}
"""Not shown: imports check the configuration, and tokens are counted."""

_CUT = re.compile(r" … \[[\d,]+ more characters\]\Z")

Model = TypeVar("Model", bound=BaseModel)


class LimitExceeded(JournalError):
    """A line that the site does not store."""


class LineLeftOut(JournalError):
    """A line that is always replaced by a notice, because no later line depends on it."""


def fitted(event: journal.AnyEvent) -> journal.AnyEvent:
    """Return the event with long texts cut. Raises LimitExceeded or LineLeftOut, naming the line."""
    where = f"line {event.seq}"
    if not 0 <= event.time <= MAX_TIME:
        raise LimitExceeded(f"{where} has the time {event.time}, which is not a time in seconds since 1970")
    if isinstance(event, journal.TrajectoryTokens):
        _check_tokens(event, where)
    if isinstance(event, journal.Metrics) and len(event.values) > MAX_METRICS:
        raise LimitExceeded(f"{where} has {len(event.values):,} metrics, and at most {MAX_METRICS:,} are stored")
    if isinstance(event, journal.GroupStarted) and len(event.members) > MAX_MEMBERS:
        raise LimitExceeded(
            f"{where} has a group of {len(event.members):,} trajectories, and at most {MAX_MEMBERS:,} are stored"
        )
    try:
        return _fitted_turn(event) if isinstance(event, journal.Turn) else _fitted_model(event)
    except LimitExceeded as error:
        raise LimitExceeded(f"{where} {error}") from None


def _check_tokens(event: journal.TrajectoryTokens, where: str) -> None:
    try:
        count = max(event.tokens, token_arrays.count(event.data))
    except token_arrays.TokenArraysError:
        return  # the token view shows why
    if count > MAX_TOKENS:
        raise LineLeftOut(
            f"{where} has {count:,} tokens of trajectory {event.trajectory[:100]}, and at most {MAX_TOKENS:,} are shown"
        )


def _fitted_turn(turn: journal.Turn) -> journal.Turn:
    """Shorten a turn so that pages can show it with all other turns of its trajectory.

    It is never left out, because later turns would then be out of order.
    """
    if turn.turn >= MAX_TURNS:
        raise LimitExceeded(f"is turn {turn.turn:,} of its trajectory (from 0), and at most {MAX_TURNS:,} are stored")
    if len(turn.actions) > MAX_ACTIONS:  # a policy may repeat itself; what it adds is ignored
        if any(action.status == "executed" for action in turn.actions[MAX_ACTIONS:]):
            raise LimitExceeded(f"executes more than the {MAX_ACTIONS} actions that are stored of a turn")
        turn = turn.model_copy(update={"actions": turn.actions[:MAX_ACTIONS]})
    if turn.images is not None and len(turn.images) > MAX_TURN_IMAGES:
        turn = turn.model_copy(update={"images": turn.images[:MAX_TURN_IMAGES]})
    turn = _fitted_model(turn)
    for shorter in (_with_short_texts, _without_boards):
        if len(turn.model_dump_json(exclude_none=True)) <= MAX_TURN_BYTES:
            return turn
        turn = shorter(turn)
    if (size := len(turn.model_dump_json(exclude_none=True))) > MAX_TURN_BYTES:
        raise LimitExceeded(f"is a turn of {size:,} bytes, and at most {MAX_TURN_BYTES:,} are stored")
    return turn


def _with_short_texts(turn: journal.Turn) -> journal.Turn:
    names = ("state", "response", "thought", "answer")
    return turn.model_copy(update={name: _cut(getattr(turn, name), SHORT_TEXT) for name in names})


def _without_boards(turn: journal.Turn) -> journal.Turn:
    """Remove boards, advice, claims and extras, and shorten actions and calls; the page shows the texts."""
    actions = [
        action.model_copy(
            update={
                "text": _cut(action.text, SHORT_NAME),
                "name": action.name and _cut(action.name, SHORT_NAME),
                "actual": action.actual and _cut(action.actual, SHORT_NAME),
                "board": None,
                "hint": None,
                "call": action.call and _short_call(action.call),
            }
        )
        for action in turn.actions
    ]
    board = TextBoard(text="The boards of this turn are too large to be shown.")
    return turn.model_copy(update={"actions": actions, "board": board, "hint": None, "claims": None, "extra": None})


def _short_call(call: CallRecord) -> CallRecord:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    changes: dict[str, Any] = {"tool": _cut(call.tool, SHORT_NAME), "result": _cut(call.result, SHORT_NAME)}
    if len(arguments) > SHORT_NAME:
        changes["arguments"] = {"arguments": _cut(arguments, SHORT_NAME)}
    return call.model_copy(update=changes)


def _fitted_model(model: Model) -> Model:
    changes: dict[str, Any] = {}
    for name, value in model.__dict__.items():
        if name not in UNLIMITED and (shorter := _fitted(name, value)) is not value:
            changes[name] = shorter
    return model.model_copy(update=changes) if changes else model


def _fitted_extra(value: Any) -> Any:
    """Shorten a value added by another recorder. Only exports and details show it, so numbers may have any size.

    Non-finite numbers, which a database cannot store, become null.
    """
    if isinstance(value, dict):
        return {_cut(key, SHORT_NAME): _fitted_extra(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fitted_extra(item) for item in value]
    if isinstance(value, str):
        return _cut(value, MAX_TEXT)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _fitted(name: str, value: Any) -> Any:  # noqa: C901 - called for each value of each event
    """Shorten a value. Called for each value of each event, so usual values return at once."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= MAX_MESSAGE else _cut(value, MAX_MESSAGE if name in MESSAGES else MAX_TEXT)
    if value is None or kind is bool:
        return value
    if name == "extra":
        return _fitted_extra(value)
    if kind is int:
        if not -(2**31) <= value < 2**31 and not (name in WIDE and -(2**63) <= value < 2**63):
            raise LimitExceeded(f"has a number in {name} that is out of range")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise LimitExceeded(f"has a number in {name} that is not finite")
        return value
    if kind is GridBoard:  # the legend has its own limits
        return (
            value if not _is_huge(value) else TextBoard(text=f"A grid of more than {MAX_SIDE} cells a side, not shown.")
        )
    if kind is TextBoard and value.grid is not None and _is_huge(value.grid):
        value = value.model_copy(update={"grid": None})
    if kind is list:
        items = [_fitted(name, item) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if kind is dict:
        values = {key: _fitted(name, item) for key, item in value.items()}
        return value if all(map(operator.is_, values.values(), value.values())) else values
    return _fitted_model(value) if isinstance(value, BaseModel) else value


def _is_huge(board: GridBoard) -> bool:
    return len(board.rows) > MAX_SIDE or max(map(len, board.rows), default=0) > MAX_SIDE


def is_cut(text: str) -> bool:
    """Return whether a stored text has lost its end to a limit."""
    return _CUT.search(text) is not None


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} … [{len(text) - limit:,} more characters]"
