"""Cells of a grid that an action affects: the player, and the box that it pushed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Board = Mapping[str, Any]
Cell = tuple[int, int]
"""Row and column, from 0."""

PLAYERS, BOXES = frozenset("@+X"), frozenset("$*")
THEMES = ("sokoban", "frozen_lake")


def find_player(board: Board) -> Cell | None:
    """Return the cell of the player on a grid of a built-in theme."""
    return next(iter(_found(board, PLAYERS)), None)


def touched(before: Board, after: Board) -> list[list[int]]:
    """Return the cell of the box that the action moved, or else of the player; empty if neither is known."""
    pushed = [cell for cell in _found(after, BOXES) if cell not in _found(before, BOXES)]
    return [list(cell) for cell in pushed[:1] or _found(after, PLAYERS)[:1]]


def _found(board: Board, signs: frozenset[str]) -> list[Cell]:
    if board.get("kind") != "grid" or board.get("theme") not in THEMES:
        return []
    return [(y, x) for y, row in enumerate(board["rows"]) for x, sign in enumerate(row) if sign in signs]
