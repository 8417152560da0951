"""What the cells of a grid contain, and the part of it that a picture shows; see static/js/board/view.js.

Outer walls are cropped to half a cell around everything else, which has the coordinates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Board = Mapping[str, Any]
Cell = tuple[int, int]
"""Column and row, from 0."""

FRAME = 0.5
"""Width of the frame in cells."""
MAX_SIDE = 64
"""Maximum number of cells of a side: cells of larger grids would be below 9 pixels, and take seconds to draw."""

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
TONES = ("floor", "tile", "goal", "good", "danger", "bad", "white", "yellow", "orange", "red", "green", "blue")
"""Tones of a legend that are drawn as squares; the floor shows only its glyph."""


class View(NamedTuple):
    """A rectangle in cells; x and y may be half a cell outside of the grid."""

    x: float
    y: float
    width: float
    height: float


def has_cells(board: Board) -> bool:
    """Return True if the board is drawn as a grid of cells, here and in the player."""
    if board.get("kind") != "grid" or not (board["theme"] in THEMES or board.get("legend")):
        return False
    return max(len(board["rows"]), *map(len, board["rows"]), 0) <= MAX_SIDE


class Contents(NamedTuple):
    """A grid by what its cells contain: `open` ground, `wall`, a fixture, `tone` with its classes, a piece."""

    board: Board
    classes: str
    cells: Mapping[str, Sequence[Cell]]


def read(board: Board) -> Contents:
    """Sort the cells of a grid with a theme or a legend."""
    name = board["theme"]
    theme, legend = THEMES.get(name), board.get("legend") or {}
    cells: dict[str, list[Cell]] = {}
    for y, row in enumerate(board["rows"]):
        for x, character in enumerate(row):
            if theme is not None:
                found = _of_theme(*theme.get(character, ("floor", "")))
            else:
                found = _of_legend(legend.get(character) or {}, name)
            for content in found:
                cells.setdefault(content, []).append((x, y))
    return Contents(board, name if theme else f"legend theme-{name[:40]}", cells)


def _of_theme(below: str, above: str) -> list[str]:
    if below == "wall":
        return ["wall"]
    fixture = [] if below == "floor" else [below]
    if above:
        fixture.append("box on" if above == "box" and below == "target" else above)
    return ["open", *fixture]


def _of_legend(sign: Mapping[str, Any], theme: str) -> list[str]:
    match tone := sign.get("tone", "floor"):
        case "wall":
            return ["wall"]
        case "player":
            return ["open", "player"]
        case "piece":
            return ["open", "sign"]
    if tone not in TONES or (tone == "floor" and not sign.get("glyph")):
        return ["open"]
    glyph = sign.get("glyph") or ""
    power = int(glyph) if theme == "2048" and re.fullmatch("[0-9]{1,4}", glyph) else 0
    return ["open", f"tone {tone} level-{min(11, power.bit_length() - 1)}" if power else f"tone {tone}"]


def get_view(board: Board, frame: float = FRAME) -> View:
    """Return the view of all cells but walls, with the frame. It depends only on the walls."""
    contents = read(board).cells
    cells = contents.get("open") or contents.get("wall") or [(0, 0)]
    left, top = min(x for x, _ in cells), min(y for _, y in cells)
    right, bottom = max(x for x, _ in cells) + 1, max(y for _, y in cells) + 1
    return View(left - frame, top - frame, right - left + 2 * frame, bottom - top + 2 * frame)
