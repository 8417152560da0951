"""The part of a grid that a picture shows; see static/js/board/view.js.

Outer walls are cropped to half a cell around everything else, which has the coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Board = Mapping[str, Any]

FRAME = 0.5
"""Width of the frame in cells."""

THEMES: dict[str, dict[str, tuple[str, str]]] = {
    "sokoban": {
        "#": ("wall", ""),
        " ": ("floor", ""),
        ".": ("target", ""),
        "$": ("floor", "box"),
        "*": ("target", "box"),
        "@": ("floor", "player"),
        "+": ("target", "player"),
    },
    "frozen_lake": {
        " ": ("ice", ""),
        "O": ("hole", ""),
        "G": ("goal", ""),
        "@": ("ice", "player"),
        "X": ("hole", "player"),
        "+": ("goal", "player"),
    },
}
"""Meaning of each character of a known theme: ground below, piece above."""


@dataclass(frozen=True)
class View:
    """A rectangle in cells; x and y may be half a cell outside of the grid."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Fit:
    """Position of a grid in a square picture: `cell` is in pixels, (left, top) the corner of the first cell."""

    view: View
    cell: float
    left: float
    top: float

    def centre(self, x: int, y: int) -> tuple[float, float]:
        """Return the pixel in the middle of a cell."""
        return self.left + (x + 0.5) * self.cell, self.top + (y + 0.5) * self.cell


def get_view(board: Board) -> View:
    """Return the view of all cells but walls, with the frame. It depends only on the walls."""
    theme, legend = THEMES.get(board["theme"]), board.get("legend") or {}

    def is_wall(character: str) -> bool:
        if theme is not None:
            return theme.get(character, ("floor", ""))[0] == "wall"
        return bool(legend.get(character, {}).get("tone") == "wall")

    grid = [(x, y, is_wall(character)) for y, row in enumerate(board["rows"]) for x, character in enumerate(row)]
    cells = [(x, y) for x, y, wall in grid if not wall] or [(x, y) for x, y, _ in grid] or [(0, 0)]
    left, top = min(x for x, _ in cells), min(y for _, y in cells)
    right, bottom = max(x for x, _ in cells) + 1, max(y for _, y in cells) + 1
    return View(left - FRAME, top - FRAME, right - left + 2 * FRAME, bottom - top + 2 * FRAME)


def fit(board: Board, size: float) -> Fit:
    """Fit the view of a grid into the middle of a square with sides of `size` pixels."""
    view = get_view(board)
    cell = size / max(view.width, view.height)
    left, top = (size - view.width * cell) / 2 - view.x * cell, (size - view.height * cell) / 2 - view.y * cell
    return Fit(view, cell, left, top)
