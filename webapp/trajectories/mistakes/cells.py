"""Cells of a grid that an action is about: the player, and the box that it pushed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Board = Mapping[str, Any]
Cell = tuple[int, int]
"""Row and column, from 0."""

PLAYERS, BOXES = frozenset("@+X"), frozenset("$*")
THEMES = ("sokoban", "frozen_lake")


def player_of(board: Board) -> Cell | None:
    """Where the player is on a grid of a built-in theme."""
    return next(iter(_found(board, PLAYERS)), None)


def touched(before: Board, after: Board) -> list[list[int]]:
    """The box that the action moved, else the player; empty where neither is known."""
    pushed = [cell for cell in _found(after, BOXES) if cell not in _found(before, BOXES)]
    return [list(cell) for cell in pushed[:1] or _found(after, PLAYERS)[:1]]


def _found(board: Board, signs: frozenset[str]) -> list[Cell]:
    if board.get("kind") != "grid" or board.get("theme") not in THEMES:
        return []
    return [(y, x) for y, row in enumerate(board["rows"]) for x, sign in enumerate(row) if sign in signs]
