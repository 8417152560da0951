"""Raster images of boards: grids by theme or legend, bandit arms, web pages, plain text.

Matches static/js/board/board.js in the light theme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw

from webapp.trajectories.observation_images import MIN_SHOWN_SIDE
from webapp.trajectories.render import mistake_label
from webapp.trajectories.render.page import draw_page
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.text import Draw, bundled_font, can_write, wrapped, write
from webapp.trajectories.render.view import FRAME, THEMES, View, fit

Board = Mapping[str, Any]

FINE = 3
"""Oversampling factor: Pillow draws shapes without antialiasing."""

MAX_SIDE = 64
"""Maximum number of cells of a side: cells of larger grids would be below 9 pixels, and take seconds to draw."""
MAX_ARMS = 40
MIN_LABELLED = 30
"""Size of a cell in pixels below which coordinates would be illegible."""


Overlay = Callable[["Canvas"], None]


def draw_board(
    board: Board, size: int, overlay: Overlay | None = None, mark: mistake_label.Mark | None = None
) -> Image.Image:
    """Return the board as a square picture with sides of `size` pixels.

    `overlay` draws over the pieces of a grid, and `mark` is the mistake that is drawn on other boards.
    """
    match board.get("kind"):
        case "grid" if max(len(board["rows"]), *map(len, board["rows"]), 0) > MAX_SIDE:
            return _text(
                f"A grid with sides of more than {MAX_SIDE} cells: too large for a picture.", size, exact=False
            )
        case "grid" if board["theme"] in THEMES or board.get("legend"):
            return _grid(board, size, overlay)
        case "grid":
            return _text("\n".join(board["rows"]), size, exact=True)
        case "arms":
            return _arms(board, size, mark)
        case "page":
            return draw_page(board, size, mark)
    if grid := board.get("grid"):  # of a question: the text would be too small
        return draw_board(grid, size)
    text = str(board.get("text", ""))
    return _text(text, size, exact=False) if mark is None else _marked_text(text, size, mark)


def draw_observation(image: Image.Image, side: int) -> Image.Image:
    """Fit the image into a square picture. Small images, such as frames of games, keep sharp pixels."""
    square = Image.new("RGBA", (side, side), LIGHT["panel"])
    factor = side / max(image.size)
    small = max(image.size) < MIN_SHOWN_SIDE
    if small and factor > 1:
        factor = int(factor)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    resized = image.convert("RGBA").resize(size, Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)
    square.alpha_composite(resized, ((side - size[0]) // 2, (side - size[1]) // 2))
    return square.convert("RGB")


@dataclass(frozen=True)
class Canvas:
    """A grid to draw on. Coordinates are in cells; (0, 0) is the upper left corner of the first cell."""

    draw: Draw
    cell: float
    left: float
    top: float

    def box(self, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
        (left, top), (right, bottom) = self.point(x0, y0), self.point(x1, y1)
        return left, top, max(left, right - 1), max(top, bottom - 1)  # a cell may be smaller than a pixel

    def point(self, x: float, y: float) -> tuple[float, float]:
        return self.left + x * self.cell, self.top + y * self.cell

    def width(self, share: float) -> int:
        return max(1, round(share * self.cell))

    def square(
        self, x: float, y: float, inset: float, fill: str | None, *, edge: str = "", line: float = 0, round: float = 0
    ) -> None:
        box = self.box(x + inset, y + inset, x + 1 - inset, y + 1 - inset)
        wide = self.width(line) if edge else 0
        self.draw.rounded_rectangle(box, round * self.cell, fill, edge or None, wide)

    def disc(
        self, x: float, y: float, radius: float, fill: str | None, edge: str | None = None, line: float = 0
    ) -> None:
        self.draw.ellipse(
            self.box(x - radius, y - radius, x + radius, y + radius), fill, edge, self.width(line) if edge else 1
        )

    def line(self, points: list[tuple[float, float]], fill: str, share: float) -> None:
        self.draw.line([self.point(x, y) for x, y in points], fill, self.width(share), joint="curve")


def _grid(board: Board, size: int, overlay: Overlay | None) -> Image.Image:
    rows: list[str] = board["rows"]
    ice = board["theme"] == "frozen_lake"
    image = Image.new("RGB", (size * FINE, size * FINE), LIGHT["wall"])
    fitted_view = fit(board, size * FINE)
    canvas = Canvas(ImageDraw.Draw(image), fitted_view.cell, fitted_view.left, fitted_view.top)
    theme = THEMES.get(board["theme"])
    if theme is not None:
        _themed(canvas, rows, theme, ice=ice)
    else:
        _signed(canvas, rows, board["legend"])
    if fitted_view.cell >= MIN_LABELLED * FINE:
        _coordinates(canvas, fitted_view.view)
    if overlay is not None:
        overlay(canvas)
    return image.reduce(FINE)


def _coordinates(canvas: Canvas, view: View) -> None:
    """Draw row and column numbers in the frame, from 1 and for the whole grid, as thoughts and claims count."""
    size = round(0.27 * canvas.cell)
    for column in range(math.ceil(view.x), math.floor(view.x + view.width)):
        at = canvas.point(column + 0.5, view.y + FRAME / 2)
        write(canvas.draw, at, str(column + 1), size, LIGHT["coordinate"], anchor="mm")
    for row in range(math.ceil(view.y), math.floor(view.y + view.height)):
        at = canvas.point(view.x + FRAME / 2, row + 0.5)
        write(canvas.draw, at, str(row + 1), size, LIGHT["coordinate"], anchor="mm")


def _themed(canvas: Canvas, rows: list[str], theme: Mapping[str, tuple[str, str]], *, ice: bool) -> None:
    ground = {
        (x, y): theme.get(character, ("floor", "")) for y, row in enumerate(rows) for x, character in enumerate(row)
    }
    _floor(canvas, {cell for cell, (below, _) in ground.items() if below != "wall"}, "ice" if ice else "floor")
    _bricks(canvas, {cell for cell, (below, _) in ground.items() if below == "wall"})
    below_it: dict[str, Callable[[Canvas, int, int], None]] = {"target": _target, "hole": _hole, "goal": _goal}
    for (x, y), (below, _) in ground.items():
        if below in below_it:
            below_it[below](canvas, x, y)
    for (x, y), (below, above) in ground.items():
        if above == "box":
            _crate(canvas, x, y, done=below == "target")
        if above == "player":
            _player(canvas, x, y)


def _floor(canvas: Canvas, cells: set[tuple[int, int]], kind: str) -> None:
    for x, y in cells:
        canvas.square(x, y, 0, LIGHT[kind], round=0.12)
        for dx, dy in ((1, 0), (0, 1)):
            if (x + dx, y + dy) in cells:
                box = canvas.box(x + 0.5 * dx, y + 0.5 * dy, x + 1 + 0.5 * dx, y + 1 + 0.5 * dy)
                canvas.draw.rectangle(box, LIGHT[kind])
    for x, y in cells:
        if (x + y) % 2:
            canvas.square(x, y, 0.05, LIGHT[f"{kind}_alt"])


def _bricks(canvas: Canvas, cells: set[tuple[int, int]]) -> None:
    for x, y in cells:
        upper, lower = (0.25, 0.75) if y % 2 else (0.5, 0.25)
        for start, end in (((0, 0.5), (1, 0.5)), ((upper, 0), (upper, 0.5)), ((lower, 0.5), (lower, 1))):
            canvas.line([(x + start[0], y + start[1]), (x + end[0], y + end[1])], LIGHT["wall_edge"], 0.02)


def _target(canvas: Canvas, x: int, y: int) -> None:
    canvas.disc(x + 0.5, y + 0.5, 0.395, None, LIGHT["target"], 0.07)
    canvas.disc(x + 0.5, y + 0.5, 0.1, LIGHT["target"])


def _hole(canvas: Canvas, x: int, y: int) -> None:
    canvas.draw.ellipse(canvas.box(x + 0.13, y + 0.18, x + 0.87, y + 0.86), LIGHT["hole"])
    canvas.draw.arc(canvas.box(x + 0.2, y + 0.22, x + 0.8, y + 0.8), 200, 340, LIGHT["ice_alt"], canvas.width(0.04))


def _goal(canvas: Canvas, x: int, y: int) -> None:
    canvas.line([(x + 0.32, y + 0.86), (x + 0.32, y + 0.15)], INK, 0.06)
    flag = [(0.34, 0.16), (0.78, 0.16), (0.65, 0.31), (0.78, 0.46), (0.34, 0.46)]
    canvas.draw.polygon([canvas.point(x + dx, y + dy) for dx, dy in flag], LIGHT["goal"])


def _crate(canvas: Canvas, x: int, y: int, *, done: bool) -> None:
    fill, edge = (LIGHT["box_done"], LIGHT["box_done_edge"]) if done else (LIGHT["box"], LIGHT["box_edge"])
    canvas.square(x, y, 0.1, fill, edge=edge, line=0.05, round=0.1)
    if done:
        canvas.line([(x + 0.32, y + 0.52), (x + 0.45, y + 0.66), (x + 0.7, y + 0.36)], "#ffffff", 0.09)
    else:
        canvas.square(x, y, 0.24, None, edge=edge, line=0.04)
        canvas.line([(x + 0.25, y + 0.75), (x + 0.75, y + 0.25)], edge, 0.045)


def _player(canvas: Canvas, x: int, y: int) -> None:
    canvas.disc(x + 0.5, y + 0.5, 0.31, LIGHT["accent"], LIGHT["panel"], 0.04)
    for side in (0.4, 0.6):
        canvas.disc(x + side, y + 0.48, 0.055, LIGHT["panel"])


TONES = {
    "goal": ("good_wash", "good", "good"),
    "good": ("good_wash", "good", "good"),
    "danger": ("bad_wash", "bad", "bad"),
    "bad": ("warn_wash", "warn", "warn"),
    "tile": ("panel", "line", "paint_ink"),
    **{name: (f"paint_{name}", f"paint_{name}_edge", "paint_ink") for name in ("white", "yellow", "orange")},
    **{name: (f"paint_{name}", f"paint_{name}_edge", "paint_white") for name in ("red", "green", "blue")},
}
"""Fill, edge and glyph of tones drawn as squares."""
GLYPH_SIZES = (0.56, 0.4, 0.34, 0.27)
"""Font size of a glyph by its number of characters, in cells."""


def _signed(canvas: Canvas, rows: list[str], legend: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw a grid with a legend."""
    cells = {(x, y): character for y, row in enumerate(rows) for x, character in enumerate(row)}
    tone = {character: legend.get(character, {}).get("tone", "floor") for character in set(cells.values())}
    _floor(canvas, {cell for cell, character in cells.items() if tone[character] != "wall"}, "floor")
    _bricks(canvas, {cell for cell, character in cells.items() if tone[character] == "wall"})
    for (x, y), character in cells.items():
        sign = legend.get(character, {})
        match tone[character]:
            case "player":
                _player(canvas, x, y)
            case "piece":
                canvas.disc(x + 0.5, y + 0.5, 0.36, LIGHT["box"], LIGHT["box_edge"], 0.05)
                _glyph(canvas, x, y, sign, "#ffffff")
            case kind if kind in TONES:
                fill, edge, ink = TONES[kind]
                canvas.square(x, y, 0.05, LIGHT[fill], edge=LIGHT[edge], line=0.04, round=0.12)
                _glyph(canvas, x, y, sign, LIGHT[ink])
            case "floor":
                _glyph(canvas, x, y, sign, INK)


def _glyph(canvas: Canvas, x: int, y: int, sign: Mapping[str, Any], fill: str) -> None:
    """Draw the sign's glyph, or the first letter of its name if no available font has it."""
    glyph = sign.get("glyph")
    if not glyph:
        return
    text = glyph if can_write(glyph) else sign["name"][:1].upper()
    size = round(GLYPH_SIZES[min(len(text), len(GLYPH_SIZES)) - 1] * canvas.cell)
    write(canvas.draw, canvas.point(x + 0.5, y + 0.5), text, size, fill, anchor="mm", bold=0.01)


def _arms(board: Board, size: int, mark: mistake_label.Mark | None) -> Image.Image:
    arms: list[Mapping[str, Any]] = board["arms"][:MAX_ARMS]
    image = Image.new("RGB", (size * FINE, size * FINE), LIGHT["floor"])
    draw, unit = ImageDraw.Draw(image), size * FINE / 100
    count = max(1, len(arms))
    gap = min(4 * unit, 47 * unit / count)
    room = (94 * unit - gap * (count - 1)) / count
    for number, arm in enumerate(arms):
        left, top, bottom = 3 * unit + number * (room + gap), 24 * unit, 76 * unit
        pulled = arm.get("pulls", 0) > 0
        edge, line = (LIGHT["accent"], 0.9) if pulled else (LIGHT["line_strong"], 0.4)
        draw.rounded_rectangle((left, top, left + room, bottom), 3 * unit, LIGHT["panel"], edge, round(line * unit))
        middle = left + room / 2
        _lever(draw, middle, top + 5 * unit, min(room * 0.62, 30 * unit))
        name = wrapped(str(arm["name"]), round(5.2 * unit), room * 0.9, 1)
        write(draw, (middle, top + 33 * unit), name[0] if name else "", round(5.2 * unit), INK, anchor="ms", bold=0.012)
        pulls = "1 pull" if arm.get("pulls") == 1 else f"{arm.get('pulls', 0)} pulls"
        last = arm.get("last")
        small = round(4 * unit)
        write(draw, (middle, top + 40 * unit), pulls, small, LIGHT["soft"], anchor="ms")
        write(
            draw,
            (middle, top + 46.5 * unit),
            "not tried" if last is None else f"paid {last:.2f}",
            small,
            LIGHT["soft"],
            anchor="ms",
        )
        if mark:
            _mark_arm(draw, str(arm["name"]), mark, (left, top, left + room, bottom), unit)
    return image.reduce(FINE)


def _mark_arm(draw: Draw, name: str, mark: mistake_label.Mark, box: mistake_label.Box, unit: float) -> None:
    """Draw frame and glyph of the arm that was pulled or would have been better; nothing for others."""
    right, middle, size = box[2] - 1.5 * unit, box[1] + 5 * unit, round(7 * unit)
    if name == mark["played"]:
        mistake_label.frame(draw, box, mistake_label.get_mark_colour(mark), 1.1 * unit, 4 * unit)
        mistake_label.badge(draw, right, middle, mark, size)
    elif name in mark["better"][:1]:
        mistake_label.frame(draw, box, LIGHT["good"], 0.8 * unit, 4 * unit)
        mistake_label.better_badge(draw, right, middle, round(5.4 * unit))


def _lever(draw: Draw, middle: float, top: float, wide: float) -> None:
    """Draw the one-armed bandit of the player, 60 by 44 units."""
    unit, left = wide / 60, middle - wide / 2

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x * unit, top + y * unit

    draw.line([at(42, 26), at(50, 26), at(50, 12)], LIGHT["wall"], round(3 * unit), joint="curve")
    draw.rounded_rectangle((*at(8, 8), *at(42, 38)), 5 * unit, LIGHT["wall"])
    draw.rounded_rectangle((*at(14, 14), *at(36, 24)), 2 * unit, LIGHT["floor"])
    draw.ellipse((*at(45.5, 5.5), *at(54.5, 14.5)), LIGHT["target"])


def _text(text: str, size: int, *, exact: bool) -> Image.Image:
    """Draw plain text as large as possible; `exact` sets it in fixed columns, as grids need."""
    image = Image.new("RGB", (size * 2, size * 2), LIGHT["floor"])
    draw, room, margin = ImageDraw.Draw(image), size * 2 * 0.88, size * 2 * 0.06
    if exact:
        lines = text.splitlines() or [""]
        longest = max(1, *(len(line) for line in lines))
        point = max(8, min(round(room / longest / 0.62), round(room / len(lines) / 1.15), size // 5))
        step = point * 0.62
        top = (size * 2 - len(lines) * point * 1.15) / 2 + point
        left = (size * 2 - longest * step) / 2 + step / 2
        for row, line in enumerate(lines):
            for column, character in enumerate(line):
                write(draw, (left + column * step, top + row * point * 1.15), character, point, INK, anchor="ms")
        return image.reduce(2)
    for point in (size // 6, size // 8, size // 10, size // 13, size // 17, size // 22, size // 28):
        fits = int(room / (point * 1.4))
        lines = wrapped(text, point, room, fits + 1)
        if len(lines) <= fits:
            break
    lines = wrapped(text, point, room, fits)
    top = margin + bundled_font(point).getmetrics()[0] + max(0.0, (room - len(lines) * point * 1.4) / 2)
    for row, line in enumerate(lines):
        write(draw, (margin, top + row * point * 1.4), line, point, INK)
    return image.reduce(2)


def _marked_text(text: str, size: int, mark: mistake_label.Mark) -> Image.Image:
    """Draw text as large as possible, with the wrong answer and the better one in their colours."""
    image = Image.new("RGB", (size * 2, size * 2), LIGHT["floor"])
    draw, room, margin = ImageDraw.Draw(image), size * 2 * 0.88, size * 2 * 0.06
    paragraphs = mistake_label.marked_text(text, mark)
    lines: list[tuple[str, str]] = []
    for point in (size // 8, size // 10, size // 13, size // 17, size // 22, size // 28):
        fits = int(room / (point * 1.4))
        lines = [(line, colour) for words, colour in paragraphs for line in wrapped(words, point, room, fits)]
        if len(lines) <= fits:
            break
    lines = lines[-fits:]  # the end has the answers
    top = margin + bundled_font(point).getmetrics()[0] + max(0.0, (room - len(lines) * point * 1.4) / 2)
    for row, (line, colour) in enumerate(lines):
        bold = 0.015 if colour else 0
        write(draw, (margin, top + row * point * 1.4), line, point, LIGHT[colour] if colour else INK, bold=bold)
    return image.reduce(2)
