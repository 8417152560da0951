"""Positions of a trajectory: each turn's start, then each of its actions; mirrors static/js/player/positions.js.

Turns and actions are 0-based here and 1-based in URLs, where action 0 is the turn's start. Other trainers' runs often
have no boards: then the board is the state of the turn as text, unless there is an image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Data = Mapping[str, Any]
START = -1
"""Action of a position at a turn's start."""


@dataclass(frozen=True)
class Position:
    """State after an action, or at the start of a turn. `turn_data` is None without any turn."""

    turn: int
    action: int
    board: Data
    turn_data: Data | None


def positions(played: Data) -> list[Position]:
    """Return all positions in order; without turns, only the initial state."""
    board: Data = played["board"]
    line: list[Position] = []
    for turn in played["turns"]:
        if played.get("recorded"):
            board = turn.get("board") or board
        line.append(Position(turn["turn"], START, _shown_board(played, turn, board), turn))
        for number, record in enumerate(turn["actions"]):
            board = record.get("board") or board
            line.append(Position(turn["turn"], number, _shown_board(played, turn, board), turn))
    return line or [Position(0, START, board, None)]


def _shown_board(played: Data, turn: Data, board: Data) -> Data:
    empty = board["kind"] == "text" and not board["text"].strip()
    if not played.get("recorded") or not empty or turn.get("images"):
        return board
    return {"kind": "text", "text": turn["state"]}


def position_at(line: list[Position], turn: int, action: int) -> Position:
    """Return the position, or the nearest one before it."""
    earlier = [step for step in line if (step.turn, step.action) <= (turn, action)]
    return earlier[-1] if earlier else line[0]


def key_position(played: Data) -> tuple[int, int]:
    """Return the most informative position for one picture: the verdict, the turn that lost it, or the last turn."""
    verdict = played.get("verdict")
    if verdict:
        return verdict["turn"], verdict["action"]
    lost = played.get("lost_at")
    if lost:
        return lost["turn"], START
    return (played["turns"][-1]["turn"], START) if played["turns"] else (0, START)


def requested_position(query: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the 0-based position in a query such as `turn=2&action=3`; None without one."""
    turn, action = _count(query.get("turn")), _count(query.get("action"))
    return None if turn is None else (max(1, turn) - 1, (action or 0) - 1)


def position_query(turn: int, action: int) -> str:
    """Return the query string of a position's permalink."""
    return f"?turn={turn + 1}" + (f"&action={action + 1}" if action >= 0 else "")


def _count(text: str | None) -> int | None:
    return int(text[:6]) if text and text.isdecimal() and text.isascii() else None
