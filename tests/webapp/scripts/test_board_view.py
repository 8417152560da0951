"""The crop of a board, on pages and in pictures alike: outer walls leave the view, numbers stay those of the grid."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webapp.javascript import evaluate
from webapp.trajectories.render.board import board_svg
from webapp.trajectories.render.view import get_view

ROOM = {"kind": "grid", "theme": "sokoban", "rows": ["######", "######", "#  $.#", "#@ ###", "######", "######"]}
LAKE = {"kind": "grid", "theme": "frozen_lake", "rows": ["@  ", " O ", "  G"]}
WALLS = {"kind": "grid", "theme": "sokoban", "rows": ["###", "###"]}
GARDEN = {
    "kind": "grid",
    "theme": "garden",
    "rows": ["hhhh", "h@ h", "hhhh"],
    "legend": {"h": {"name": "hedge", "tone": "wall"}, "@": {"name": "gardener", "tone": "player"}},
}
VIEWS = [(ROOM, (0.5, 1.5, 5, 3)), (LAKE, (-0.5, -0.5, 4, 4)), (WALLS, (-0.5, -0.5, 4, 3)), (GARDEN, (0.5, 0.5, 3, 2))]


@pytest.mark.parametrize(("board", "view"), VIEWS, ids=["room", "lake", "walls", "garden"])
def test_pages_and_pictures_crop_outer_walls_alike(board: dict[str, Any], view: tuple[float, ...]) -> None:
    cropped = get_view(board)
    assert (cropped.x, cropped.y, cropped.width, cropped.height) == view
    ground = evaluate("board/board.js", "parseGrid(data).ground", board)
    x, y, width, height = view
    assert evaluate("board/view.js", "viewOf(data)", ground) == {"x": x, "y": y, "width": width, "height": height}


def test_a_trajectory_keeps_its_view_while_pieces_move() -> None:
    moved = ROOM | {"rows": ["######", "######", "#  @*#", "#  ###", "######", "######"]}
    assert get_view(moved) == get_view(ROOM)


def test_cells_that_a_claim_names_are_never_cropped() -> None:
    ground = evaluate("board/board.js", "parseGrid(data).ground", ROOM)
    view = evaluate("board/view.js", "viewOf(data, [{x: 5, y: 5}])", ground)
    assert evaluate("board/view.js", "contains(data, {x: 5, y: 5})", view)
    assert not evaluate("board/view.js", "contains(viewOf(data), {x: 5, y: 5})", ground)


def test_a_wide_room_is_centred_in_a_square_picture() -> None:
    assert 'viewBox="0.5 0.5 5 5"' in board_svg(ROOM)  # a cell above and below the view
