"""The path through a grid: cells of the player and the boxes after each executed action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.trajectories.render.board import MAX_SIDE
from webapp.trajectories.render.view import THEMES

Cell = tuple[int, int]
"""Column and row, from 0."""
Board = Mapping[str, Any]


@dataclass(frozen=True)
class BoardStep:
    """The board after an action: the player's cell, if it has one, and a box's cells before and after a push."""

    board: Board
    player: Cell | None
    push: tuple[Cell, Cell] | None


def has_cells(board: Board) -> bool:
    """Return True if the board is drawn as a grid of cells, here and in the player."""
    if board.get("kind") != "grid" or not (board["theme"] in THEMES or board.get("legend")):
        return False
    return max(len(board["rows"]), *map(len, board["rows"]), 0) <= MAX_SIDE


def walk(board: Board, actions: Iterable[Mapping[str, Any]]) -> list[BoardStep]:
    """Return the initial state and the state after each executed action; empty for boards without cells."""
    if not has_cells(board):
        return []
    steps = [BoardStep(board, _player(board), None)]
    for record in actions:
        after = record.get("board")
        if record.get("status") == "executed" and after and has_cells(after):
            steps.append(BoardStep(after, _player(after), _push(steps[-1].board, after)))
    return steps


def _cells(board: Board, piece: str, tone: str) -> list[tuple[str, Cell]]:
    """Return the cells of a theme's piece, or of a legend's tone, each with the kind of its piece."""
    theme = THEMES.get(board["theme"])
    legend = board.get("legend") or {}
    cells = []
    for y, row in enumerate(board["rows"]):
        for x, character in enumerate(row):
            if theme is not None:
                if theme.get(character, ("", ""))[1] == piece:
                    cells.append((piece, (x, y)))
            elif legend.get(character, {}).get("tone") == tone:
                cells.append((character, (x, y)))
    return cells


def movable(board: Board) -> list[Cell]:
    """Return the cells of the boxes, or of a legend's pieces."""
    return [cell for _, cell in _cells(board, "box", "piece")]


def _player(board: Board) -> Cell | None:
    players = _cells(board, "player", "player")
    return players[0][1] if players else None


def _push(before: Board, after: Board) -> tuple[Cell, Cell] | None:
    """Return the move of a piece to a neighbouring cell; None unless exactly one piece moved."""
    old, new = set(_cells(before, "box", "piece")), set(_cells(after, "box", "piece"))
    gone, come = old - new, new - old
    if len(gone) != 1 or len(come) != 1:
        return None
    (kind, start), (other, end) = gone.pop(), come.pop()
    beside = abs(start[0] - end[0]) + abs(start[1] - end[1]) == 1
    return (start, end) if kind == other and beside else None
