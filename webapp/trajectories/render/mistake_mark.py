"""A mistake on the picture of a grid: red frame and glyph at the box or player, and a dashed arrow for the better move.

Matches static/js/board/mistake_overlay.js in the light theme.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, hypot, sin, tau

from webapp.trajectories.render.board import Canvas
from webapp.trajectories.render.mistake_label import Mark, get_mark_colour
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.text import write

DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
DASH, GAP = 0.13, 0.09
DOTS = 16


def overlay(mark: Mark) -> Callable[[Canvas], None]:
    """Return a function that draws the mark over a grid, for draw_board()."""

    def draw(canvas: Canvas) -> None:
        colour = get_mark_colour(mark)
        for row, column in mark["cells"]:
            canvas.square(column, row, 0.03, None, edge=colour, line=0.08, round=0.14)
        step = DIRECTIONS.get(mark["better"][0].lower()) if mark["better"] else None
        if step and mark["origin"]:
            row, column = mark["origin"]
            if [row, column] not in mark["cells"]:
                _dotted_circle(canvas, column + 0.5, row + 0.5)
            _arrow(canvas, column + 0.5, row + 0.5, step)
        for row, column in mark["cells"]:
            _badge(canvas, column, row, mark["glyph"], colour)

    return draw


def _dotted_circle(canvas: Canvas, x: float, y: float) -> None:
    """Mark the player's cell before the move if the player has left it."""
    for number in range(DOTS):
        angle = tau * number / DOTS
        canvas.disc(x + 0.28 * cos(angle), y + 0.28 * sin(angle), 0.025, INK)


def _arrow(canvas: Canvas, x: float, y: float, step: tuple[int, int]) -> None:
    """Draw a dashed arrow to the next cell, light below and dark above to be visible on any ground."""
    dx, dy = step
    length, tip = hypot(dx, dy), 1.06
    start = 0.36
    for share, colour in ((0.17, LIGHT["panel"]), (0.09, INK)):
        at = start
        while at < tip - 0.16:
            end = min(at + DASH, tip - 0.16)
            canvas.line([(x + dx * at, y + dy * at), (x + dx * end, y + dy * end)], colour, share)
            at = end + GAP
        wing = 0.17 if colour == INK else 0.22
        back = tip - (0.24 if colour == INK else 0.27)
        point = tip + (0 if colour == INK else 0.05)
        side = (-dy / length * wing, dx / length * wing)
        head = [
            (x + dx * point, y + dy * point),
            (x + dx * back + side[0], y + dy * back + side[1]),
            (x + dx * back - side[0], y + dy * back - side[1]),
        ]
        canvas.draw.polygon([canvas.point(*corner) for corner in head], colour)


def _badge(canvas: Canvas, x: float, y: float, glyph: str, colour: str) -> None:
    """Draw the glyph on a disc at the cell's upper right corner, within the picture."""
    radius = 0.24
    middle_x, middle_y = x + 0.86, max(y + 0.14, radius)
    canvas.disc(middle_x, middle_y, radius, colour, LIGHT["panel"], 0.04)
    size = round((0.27 if len(glyph) > 1 else 0.33) * canvas.cell)
    write(canvas.draw, canvas.point(middle_x, middle_y), glyph, size, "#ffffff", anchor="mm", bold=0.03)
