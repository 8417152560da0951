"""Small boards for lists and comparisons: inline SVG in the colours of the page's theme, without details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.safestring import SafeString

from webapp.trajectories.render.arms import draw_lever
from webapp.trajectories.render.grid import Shape, draw_ground, draw_pieces
from webapp.trajectories.render.svg import clean
from webapp.trajectories.render.view import Board, Cell, get_view, has_cells, read
from webapp.trajectories.render.walk import movable

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
    contents = read(board)
    view = get_view(board, MARGIN if "wall" in contents.cells else 0)
    frames = Shape("fault", 0.02, 0.02, "h.96v.96h-.96z").at(fault)
    parts = [*draw_ground(contents, detail=False), *draw_pieces(contents, detail=False), frames]
    return _inline(f"grid {clean(contents.classes)}", "{:g} {:g} {:g} {:g}".format(*view), parts)


def _arms(arms: Sequence[Mapping[str, Any]]) -> SafeString | None:
    """Draw a bandit's levers with the first letters of the arms' names."""
    if not 1 <= len(arms) <= MAX_MINI_ARMS:
        return None
    levers = (
        f'<g transform="translate({60 * number} 8)">{draw_lever(arm)}'
        f'<text x="25" y="74">{clean(str(arm["name"])[:1])}</text></g>'
        for number, arm in enumerate(arms)
    )
    return _inline("bandit", f"0 0 {60 * len(arms)} 96", levers)


def _inline(classes: str, view: str, parts: Iterable[str]) -> SafeString:
    return SafeString(f'<svg class="mini {classes}" viewBox="{view}" aria-hidden="true">{"".join(parts)}</svg>')


def fault_cells(before: Board | None, after: Board | None) -> list[Cell]:
    """Return the cells of the decisive mistake in a lost attempt: the box that was pushed, or the player's hole."""
    if after is None or not has_cells(after):
        return []
    if after["theme"] == "frozen_lake":
        return [(x, y) for y, row in enumerate(after["rows"]) for x, character in enumerate(row) if character == "X"]
    if before is None or not has_cells(before):
        return []
    return sorted(set(movable(after)) - set(movable(before)))
