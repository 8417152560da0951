"""Small vector boards for lists and comparisons: inline SVG in the colours of the page's theme, without scripts.

Themes and legends match static/js/board/board.js; static/css/mini_board.css has the colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from webapp.trajectories.render.view import THEMES
from webapp.trajectories.render.walk import Board, Cell, has_cells, movable

MAX_MINI_SIDE = 24
"""Maximum number of cells of a side: more could not be distinguished at the size of a row."""
MAX_MINI_ARMS = 4
MARGIN = 0.4
"""Width of the wall around the floor, in cells; the rest of the outer wall is cropped."""


def mini_board(board: Board | None, fault: Iterable[Cell] = ()) -> SafeString | None:
    """Return the grid as SVG, with frames around the cells of `fault`, or a bandit's arms; None for other boards."""
    if board is not None and board.get("kind") == "arms":
        return _arms(board["arms"])
    if board is None or not has_cells(board):
        return None
    rows: list[str] = board["rows"]
    if not rows or max(len(rows), *map(len, rows)) > MAX_MINI_SIDE:
        return None
    cells: dict[str, list[Cell]] = {}
    for y, row in enumerate(rows):
        for x, character in enumerate(row):
            for part in _parts(board, character):
                cells.setdefault(part, []).append((x, y))
    paths = "".join(f'<path class="{part}" d="{_path(part, cells[part])}"/>' for part in _DRAWN if part in cells)
    frames = "".join(f'<rect class="fault" x="{x + 0.02}" y="{y + 0.02}" width=".96" height=".96"/>' for x, y in fault)
    theme = board["theme"] if board["theme"] in THEMES else "legend"
    left, top, width, height = _extent(rows, cells.get("floor", []))
    head = f'class="mini {theme}" viewBox="{left:g} {top:g} {width:g} {height:g}"'
    return format_html('<svg {} aria-hidden="true">{}{}</svg>', SafeString(head), SafeString(paths), SafeString(frames))


def _arms(arms: Sequence[Mapping[str, Any]]) -> SafeString | None:
    """Draw a bandit's arms with the first letters of their names; pulled arms have another colour."""
    if not 1 <= len(arms) <= MAX_MINI_ARMS:
        return None
    drawn = format_html_join(
        "",
        '<g transform="translate({} 0)"><rect class="machine{}" x="6" y="24" width="36" height="32" rx="5"/>'
        '<rect class="window" x="13" y="31" width="22" height="9" rx="2"/><text x="24" y="86">{}</text></g>',
        ((48 * number, " pulled" if arm.get("pulls") else "", arm["name"][:1]) for number, arm in enumerate(arms)),
    )
    return format_html('<svg class="mini arms" viewBox="0 0 {} 104" aria-hidden="true">{}</svg>', 48 * len(arms), drawn)


def fault_cells(before: Board | None, after: Board | None) -> list[Cell]:
    """Return the cells of the decisive mistake in a lost attempt: the box that was pushed, or the player's hole."""
    if after is None or not has_cells(after):
        return []
    if after["theme"] == "frozen_lake":
        return [(x, y) for y, row in enumerate(after["rows"]) for x, character in enumerate(row) if character == "X"]
    if before is None or not has_cells(before):
        return []
    return sorted(set(movable(after)) - set(movable(before)))


_GROUND = ("tile", "goal", "good", "danger", "bad", "white", "yellow", "orange", "red", "green", "blue")
"""Tones of a legend drawn as squares of their colour."""
_DRAWN = ("floor", "hole", "target", *_GROUND, "box", "done", "player")
"""Parts from the lowest to the highest layer, each one path."""
_TONES = {"piece": "box", "player": "player"} | {tone: tone for tone in _GROUND}


def _parts(board: Board, character: str) -> list[str]:
    """Return the parts to draw for a character; empty for a wall, which is the background."""
    theme = THEMES.get(board["theme"])
    if theme is None:
        sign: Mapping[str, Any] = (board.get("legend") or {}).get(character) or {}
        tone = sign.get("tone")
        return [] if tone == "wall" else ["floor", _TONES[tone]] if tone in _TONES else ["floor"]
    below, above = theme.get(character, ("floor", ""))
    if below == "wall":
        return []
    parts = ["floor"] if below in ("floor", "ice") else ["floor", below]
    return [*parts, "done" if above == "box" and below == "target" else above] if above else parts


def _path(part: str, cells: list[Cell]) -> str:
    if part in ("player", "hole"):
        radius = 0.3 if part == "player" else 0.36
        return "".join(
            f"M{x + 0.5 - radius:g} {y + 0.5}a{radius} {radius} 0 1 0 {2 * radius} 0"
            f"a{radius} {radius} 0 1 0 {-2 * radius} 0z"
            for x, y in cells
        )
    if part == "target":
        return "".join(f"M{x + 0.2:g} {y + 0.5}a.3 .3 0 1 0 .6 0a.3 .3 0 1 0 -.6 0z" for x, y in cells)
    inset = 0 if part == "floor" else 0.13
    side = 1 - 2 * inset
    return "".join(f"M{x + inset:g} {y + inset:g}h{side:g}v{side:g}h{-side:g}z" for x, y in cells)


def _extent(rows: list[str], floor: list[Cell]) -> tuple[float, float, float, float]:
    """Return the visible part: the floor with a little of the wall around it."""
    if not floor:
        return 0, 0, max(map(len, rows)), len(rows)
    left, top = min(x for x, _ in floor), min(y for _, y in floor)
    right, bottom = max(x for x, _ in floor) + 1, max(y for _, y in floor) + 1
    edge = MARGIN if any(character == "#" for row in rows for character in row) else 0.0
    return left - edge, top - edge, right - left + 2 * edge, bottom - top + 2 * edge
