"""The path through a grid: cells of the player and the boxes after each executed action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.trajectories.render.view import THEMES, Board, Cell, has_cells, read


@dataclass(frozen=True)
class BoardStep:
    """The board after an action: the player's cell, if it has one, and a box's cells before and after a push."""

    board: Board
    player: Cell | None
    push: tuple[Cell, Cell] | None


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


def movable(board: Board) -> list[Cell]:
    """Return the cells of the boxes, or of a legend's pieces."""
    cells = read(board).cells
    return [cell for piece in ("box", "box on", "sign") for cell in cells.get(piece, ())]


def _player(board: Board) -> Cell | None:
    return next(iter(read(board).cells.get("player", ())), None)


def _push(before: Board, after: Board) -> tuple[Cell, Cell] | None:
    """Return the move of a piece to a neighbouring cell; None unless exactly one piece moved."""
    old, new = set(movable(before)), set(movable(after))
    gone, come = old - new, new - old
    if len(gone) != 1 or len(come) != 1:
        return None
    start, end = gone.pop(), come.pop()
    kinds = {board["rows"][y][x] for board, (x, y) in ((before, start), (after, end))}
    alike = before["theme"] in THEMES or len(kinds) == 1
    return (start, end) if alike and abs(start[0] - end[0]) + abs(start[1] - end[1]) == 1 else None
