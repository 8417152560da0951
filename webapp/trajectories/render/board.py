"""Boards as SVG and as raster images: grids by theme or legend, bandit arms, web pages, plain text.

Matches static/js/board/board.js in the light theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from PIL import Image

from webapp.trajectories.observation_images import MIN_SHOWN_SIDE
from webapp.trajectories.render.arms import draw_arms
from webapp.trajectories.render.grid import draw_grid
from webapp.trajectories.render.mistake_label import Mark, marked_text
from webapp.trajectories.render.page import draw_page
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.svg import SIDE, raster, square, write
from webapp.trajectories.render.text import bundled_font, wrapped
from webapp.trajectories.render.view import MAX_SIDE, Board, has_cells
from webapp.trajectories.render.walk import BoardStep

MIN_LABELLED = 30
"""Size of a cell in pixels below which coordinates would be illegible."""
MARGIN, ROOM = 0.06 * SIDE, 0.88 * SIDE
SIZES = (83, 62, 50, 38, 29, 22, 18)
"""Font sizes of a text, of which the first is taken that fits."""
LEADING = 1.4
"""Height of a line in its font size."""


def draw_board(board: Board, size: int, mark: Mark | None = None, path: Sequence[BoardStep] = ()) -> Image.Image:
    """Return board_svg() as an image with sides of `size` pixels, which others receive too: do not change it."""
    return raster(board_svg(board, mark, path, size / MIN_LABELLED), size)


def board_svg(board: Board, mark: Mark | None = None, path: Sequence[BoardStep] = (), labelled: float = inf) -> str:
    """Return the board as a square SVG.

    Args:
        mark: a mistake to draw.
        path: steps whose path is drawn on a grid, under its pieces.
        labelled: cells per side above which the coordinates of a grid are omitted.
    """
    match board.get("kind"):
        case "grid" if has_cells(board):
            return draw_grid(board, mark, path, labelled)
        case "grid" if max(len(board["rows"]), *map(len, board["rows"]), 0) > MAX_SIDE:
            return _text(f"A grid with sides of more than {MAX_SIDE} cells: too large for a picture.")
        case "grid":
            return _columns(board["rows"])
        case "arms":
            return draw_arms(board["arms"], mark)
        case "page":
            return draw_page(board, mark)
    if grid := board.get("grid"):  # of a question: the text would be too small
        return board_svg(grid, labelled=labelled)
    return _text(str(board.get("text", "")), mark)


def draw_observation(image: Image.Image, side: int) -> Image.Image:
    """Fit the image into a square picture. Small images, such as frames of games, keep sharp pixels."""
    picture = Image.new("RGBA", (side, side), LIGHT["panel"])
    factor = side / max(image.size)
    small = max(image.size) < MIN_SHOWN_SIDE
    if small and factor > 1:
        factor = int(factor)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    resized = image.convert("RGBA").resize(size, Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)
    picture.alpha_composite(resized, ((side - size[0]) // 2, (side - size[1]) // 2))
    return picture.convert("RGB")


def _columns(rows: Sequence[str]) -> str:
    """Draw lines in fixed columns."""
    longest, count = max([1, *map(len, rows)]), max(1, len(rows))
    point = min(ROOM / longest / 0.62, ROOM / count / 1.15, SIDE / 10)
    step, high = point * 0.62, point * 1.15
    left, top = (SIDE - (longest - 1) * step) / 2, (SIDE - count * high) / 2 + point
    parts = [
        write((left + column * step, top + row * high), character, point, INK, anchor="middle")
        for row, line in enumerate(rows)
        for column, character in enumerate(line)
        if not character.isspace()
    ]
    return square(parts, LIGHT["floor"])


def _text(text: str, mark: Mark | None = None) -> str:
    """Draw plain text as large as possible, with a wrong answer and the better one in their colours."""
    paragraphs = marked_text(text, mark) if mark else [(text, "")]
    for point in SIZES:
        fits = int(ROOM / (point * LEADING))
        lines = [(line, colour) for words, colour in paragraphs for line in wrapped(words, point, ROOM, fits + 1)]
        if len(lines) <= fits:
            break
    else:  # the end has the answers
        lines = lines[-fits:] if mark else [(line, "") for line in wrapped(text, point, ROOM, fits)]
    top = MARGIN + bundled_font(point).getmetrics()[0] + (ROOM - len(lines) * point * LEADING) / 2
    parts = [
        write((MARGIN, top + row * point * LEADING), line, point, LIGHT[colour or "ink"], bold=0.015 if colour else 0)
        for row, (line, colour) in enumerate(lines)
    ]
    return square(parts, LIGHT["floor"])
