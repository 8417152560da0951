"""Grids of cells as SVG, in the shapes and classes of static/js/board; static/css/board.css has their look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from webapp.trajectories.render.cube import draw_cube
from webapp.trajectories.render.mistake_label import Mark
from webapp.trajectories.render.palette import LIGHT
from webapp.trajectories.render.svg import clean, document, plate
from webapp.trajectories.render.text import can_write
from webapp.trajectories.render.view import FRAME, Board, Cell, Contents, View, get_view, read
from webapp.trajectories.render.walk import BoardStep

GLYPH_SIZES = (0.56, 0.4, 0.34, 0.27)
"""Font size of a glyph by its number of characters, in cells."""
BADGE = 0.24
"""Radius of the disc with the glyph of a mistake."""
DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


class Shape(NamedTuple):
    """A path with its class: where it starts in a cell, and how it goes on from there. Small boards omit details."""

    name: str
    x: float
    y: float
    path: str
    detail: bool = True

    def at(self, cells: Iterable[Cell]) -> str:
        """Draw the shape in all these cells, as one path."""
        return _path(self.name, self.data(cells))

    def data(self, cells: Iterable[Cell]) -> str:
        """Return the data of that path."""
        return "".join(f"M{x + self.x:g} {y + self.y:g}{self.path}" for x, y in cells)


def _disc(name: str, radius: float, x: float = 0.5, y: float = 0.5, *, high: float = 0, detail: bool = True) -> Shape:
    arc = f"a{radius:g} {high or radius:g} 0 1 "
    return Shape(name, x - radius, y, f"{arc}0 {2 * radius:g} 0{arc}0 {-2 * radius:g} 0z", detail)


def _plate(name: str, inset: float, round: float, y: float = 0, *, detail: bool = True) -> Shape:
    side, arc = 1 - 2 * inset - 2 * round, f"a{round} {round} 0 0 1 "
    corners = (f"h{side:g}{arc}{round} {round}", f"v{side:g}{arc}-{round} {round}", f"h-{side:g}{arc}-{round} -{round}")
    return Shape(name, inset + round, inset + y, "".join(corners) + f"v-{side:g}{arc}{round} -{round}z", detail)


_SHADE = _plate("shade", 0.12, 0.11, 0.05)
_CRATE = _plate("crate", 0.12, 0.1, detail=False)
_LIGHT = Shape("light", 0.2, 0.155, "h.6")
_EYE = "a.055 .055 0 1 0 .11 0a.055 .055 0 1 0-.11 0z"
FIXTURES = {
    "target": (_disc("target", 0.36, detail=False), _disc("target-dot", 0.1)),
    "hole": (
        _disc("hole", 0.37, 0.5, 0.52, high=0.34, detail=False),
        Shape("hole-edge", 0.2, 0.4, "a.37 .34 0 0 1 .6 0"),
    ),
    "goal": (Shape("pole", 0.32, 0.86, "v-.7", False), Shape("goal", 0.34, 0.16, "h.42l-.12.15.12.15h-.42z", False)),
}
"""What lies on the floor of a cell."""
PIECES = {
    "box": (_SHADE, _CRATE, Shape("grain", 0.25, 0.75, "l.5-.5"), Shape("planks", 0.25, 0.25, "h.5v.5h-.5z"), _LIGHT),
    "box on": (_SHADE, _CRATE, _LIGHT, Shape("tick", 0.32, 0.52, "l.13.14.25-.3")),
    "sign": (_disc("disc", 0.34, detail=False),),
    "player": (
        _disc("shade", 0.3, y=0.55),
        _disc("body", 0.29, detail=False),
        Shape("light", 0.35, 0.3, "a.25 .25 0 0 1 .3 0"),
        Shape("eyes", 0.345, 0.5, f"{_EYE}m.2 0{_EYE}"),
    ),
}
"""What stands in a cell, from the lowest to the highest layer."""
BRICKS = (Shape("", 0, 0.5, "h1m-.5-.5v.5m-.25 0v.5"), Shape("", 0, 0.5, "h1m-.75-.5v.5m.5 0v.5"))
"""The joints of a wall in even and odd rows."""
_TONE, _SQUARE = _plate("", 0.05, 0.12), Shape("", 0.05, 0.05, "h.9v.9h-.9z")


def draw_ground(contents: Contents, *, detail: bool) -> Iterator[str]:
    """Draw what does not move."""
    cells = contents.cells
    yield _floor(cells.get("open", ()))
    if detail:
        odd = [(x, y) for x, y in cells.get("open", ()) if (x + y) % 2]
        yield _SQUARE._replace(name="floor-alt").at(odd)
        walls = [[cell for cell in cells.get("wall", ()) if cell[1] % 2 == parity] for parity in (0, 1)]
        yield _path("bricks", "".join(map(Shape.data, BRICKS, walls)))
        yield Shape("glint", 0.18, 0.42, "l.24-.24m-.22.42l.4-.4").at(cells.get("ice", ()))
    for name, shapes in FIXTURES.items():
        yield from (shape.at(cells[name]) for shape in shapes if name in cells and (detail or not shape.detail))
    if detail:
        yield from draw_cube(contents.board)
    for name in cells:
        if name.startswith("tone ") and name != "tone floor":
            yield (_TONE if detail else _SQUARE)._replace(name=name).at(cells[name])
        if name.startswith("tone ") and detail:
            yield from _glyphs(contents, name)


def draw_pieces(contents: Contents, *, detail: bool) -> Iterator[str]:
    """Draw what may stand over a path."""
    for name, shapes in PIECES.items():
        if name in contents.cells:
            parts = [shape.at(contents.cells[name]) for shape in shapes if detail or not shape.detail]
            if detail and name == "sign":
                parts += _glyphs(contents, name)
            yield f'<g class="piece {name}">{"".join(parts)}</g>'


def _floor(cells: Sequence[Cell]) -> str:
    """Draw the floor in strips along rows and columns: with their round edges, only its outline is rounded."""
    rows = "".join(
        f"M{x + 0.06:g} {y + 0.06:g}h{n - 0.12:g}v.88h-{n - 0.12:g}z" for y, x, n in _strips((y, x) for x, y in cells)
    )
    columns = "".join(f"M{x + 0.06:g} {y + 0.06:g}h.88v{n - 0.12:g}h-.88z" for x, y, n in _strips(cells) if n > 1)
    return _path("floor", rows + columns)


def _strips(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield line, start and length of each series of adjacent places, which are pairs of line and place."""
    for (line, _), series in groupby(enumerate(sorted(places)), lambda item: (item[1][0], item[1][1] - item[0])):
        found = [place for _, (_, place) in series]
        yield line, found[0], len(found)


def _path(name: str, path: str) -> str:
    return f'<path class="{name}" d="{path}"/>' if path else ""


def _text(at: tuple[float, float], text: str, size: float, classes: str = "") -> str:
    place = f'x="{at[0]:g}" y="{at[1]:g}" font-size="{size:g}" text-anchor="middle" dominant-baseline="central"'
    return f'<text class="{classes}" {place}>{clean(text)}</text>'


def _glyphs(contents: Contents, name: str) -> Iterator[str]:
    """Draw the glyphs of a legend in the cells with that content."""
    for x, y in contents.cells[name]:
        sign = contents.board["legend"][contents.board["rows"][y][x]]
        if sign.get("glyph"):
            yield _glyph(x, y, sign, name.removeprefix("tone "))


def _glyph(x: int, y: int, sign: Mapping[str, Any], tone: str) -> str:
    """Draw the sign's glyph, or the first letter of its name if no available font has it."""
    glyph = str(sign["glyph"])[: len(GLYPH_SIZES)]
    text = glyph if can_write(glyph) else str(sign["name"])[:1].upper()
    size = GLYPH_SIZES[max(1, len(text)) - 1]
    return _text((x + 0.5, y + 0.5), text, size, f"glyph {tone}")


def draw_grid(board: Board, mark: Mark | None, path: Sequence[BoardStep], labelled: float) -> str:
    """Draw a grid as a square document. Coordinates are omitted if more than `labelled` cells have its width."""
    contents, view = read(board), get_view(board)
    side = max(view.width, view.height)
    left, top = view.x - (side - view.width) / 2, view.y - (side - view.height) / 2
    parts = [plate((left, top, left + side, top + side), LIGHT["wall"]), *draw_ground(contents, detail=True)]
    if side <= labelled:
        parts += ['<g class="coordinates">', *_coordinates(view), "</g>"]
    parts += [*_walked(path), *draw_pieces(contents, detail=True), *(_mark(mark, contents) if mark else ())]
    return document((left, top, side, side), parts, f"grid {contents.classes}")


def _coordinates(view: View) -> Iterator[str]:
    """Draw row and column numbers in the frame, from 1 and for the whole grid, as thoughts and claims count."""
    for column in range(math.ceil(view.x), math.floor(view.x + view.width)):
        yield _text((column + 0.5, view.y + FRAME / 2), str(column + 1), 0.27)
    for row in range(math.ceil(view.y), math.floor(view.y + view.height)):
        yield _text((view.x + FRAME / 2, row + 0.5), str(row + 1), 0.27)


def _line(cells: Iterable[Cell]) -> str:
    return "M" + "L".join(f"{x + 0.5:g} {y + 0.5:g}" for x, y in cells)


def _walked(steps: Sequence[BoardStep]) -> Iterator[str]:
    """Draw the pushes and the path so far."""
    yield _path("pushed", "".join(_line(step.push) for step in steps if step.push))
    way = [cell for cell, _ in groupby(step.player for step in steps if step.player)]
    if len(way) > 1:
        yield _path("walked", _line(way))
        yield _disc("walk-start", 0.14).at(way[:1])


def _mark(mark: Mark, contents: Contents) -> Iterator[str]:
    """Draw a mistake: frame and glyph at the box or player, and a dashed arrow for the better move.

    A dotted circle is where the player stood, if it has left that cell.
    """
    cells = [(column, row) for row, column in mark["cells"]]
    yield _plate(f"mistake-frame {mark['kind']}", 0.05, 0.12).at(cells)
    step = DIRECTIONS.get(mark["better"][0].lower()) if mark["better"] else None
    if step and mark["origin"]:
        row, column = mark["origin"]
        if (column, row) not in contents.cells.get("player", ()):
            yield _disc("better-origin", 0.28).at([(column, row)])
        yield from _arrow(column + 0.5, row + 0.5, step)
    for x, y in cells:
        at = x + 0.86, max(y + 0.14, BADGE)
        disc = f'<circle cx="{at[0]:g}" cy="{at[1]:g}" r="{BADGE}"/>'
        text = _text(at, mark["glyph"], 0.27 if len(mark["glyph"]) > 1 else 0.33)
        yield f'<g class="mistake-glyph {mark["kind"]}">{disc}{text}</g>'


def _arrow(x: float, y: float, step: tuple[int, int]) -> Iterator[str]:
    """Draw a dashed arrow to the next cell, light below and dark above to be visible on any ground."""
    dx, dy = step

    def at(far: float, aside: float = 0) -> str:
        return f"{x + dx * far - dy * aside:g} {y + dy * far + dx * aside:g}"

    shaft = _path("shaft", f"M{at(0.36)}L{at(0.86)}")
    head = _path("head", f"M{at(1.06)}L{at(0.82, 0.17)}L{at(0.82, -0.17)}z")
    yield from (f'<g class="better-move {layer}">{shaft}{head}</g>' for layer in ("below", "above"))
