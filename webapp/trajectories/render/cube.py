"""The faces of a Rubik's cube and their letters, and the cube itself, around its net; see static/js/board/cube.js."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from webapp.trajectories.render.svg import clean
from webapp.trajectories.render.view import Board

Vector = tuple[float, float]
FACES = {"U": (0, 1), "L": (1, 0), "F": (1, 1), "R": (1, 2), "B": (1, 3), "D": (2, 1)}
"""Row and column of each face in the net, in faces."""
RIGHT, BACK, FRONT, DOWN = (0.5, 0.25), (0.5, -0.25), (-0.5, 0.25), (0, 0.55)
SEEN: dict[str, tuple[Vector, Vector, Vector]] = {
    "U": (BACK, RIGHT, FRONT),
    "F": ((0, 0), RIGHT, DOWN),
    "R": (RIGHT, BACK, DOWN),
}
"""The faces that are seen in the corner that the net leaves free, each from a corner along two edges."""


def draw_cube(board: Board) -> Iterator[str]:
    """Draw the six faces, and the cube with the colours of three; nothing for a board that is no net."""
    rows, size = board["rows"], len(board["rows"]) // 3
    if board["theme"] != "rubiks_cube" or not rows or any(len(row) != 4 * size for row in rows) or len(rows) % 3:
        return
    for name, (row, column) in FACES.items():
        x, y, side = column * size, row * size, size - 0.02
        yield f'<rect class="face" x="{x + 0.01}" y="{y + 0.01}" width="{side}" height="{side}" rx=".16"/>'
        left, top = (x - 0.24, y + size / 2) if name in "UD" else (x + size / 2, y - 0.2)
        place = f'x="{left:g}" y="{top:g}" text-anchor="middle" dominant-baseline="central"'
        yield "" if name == "F" else f'<text class="face-name" font-size=".26" {place}>{name}</text>'
    for name in SEEN:
        row, column = FACES[name]
        for along, across in product(range(size), repeat=2):
            sign = (board.get("legend") or {}).get(rows[row * size + along][column * size + across], {})
            corners = ((across, along), (across + 1, along), (across + 1, along + 1), (across, along + 1))
            path = "L".join(_point(name, u / size, v / size, size) for u, v in corners)
            yield f'<path class="tone sticker {clean(sign.get("tone", ""))}" d="M{path}z"/>'


def _point(face: str, u: float, v: float, size: int) -> str:
    """Return a point of a seen face by its shares of both edges."""
    at = (2.58 * size, 0.2 * size - 0.2)
    axes = zip(at, *SEEN[face], strict=True)
    return " ".join(f"{start + 0.86 * size * (corner + a * u + b * v):.3f}" for start, corner, a, b in axes)
