"""The wall of a suite's puzzles as an animation: a cell for each puzzle, a frame for each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from webapp.core.formatting import plural
from webapp.trajectories.render.animation import encode
from webapp.trajectories.render.card import draw_brand
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.text import Draw, fitted, write

SIZE = 900, 620
MARGIN, HEAD = 36, 132
GAP = 0.14
"""Space between cells, as a share of a cell with it."""
MAX_CELL = 84
WHOLE_MS, MIN_MS, LAST_MS = 10_000, 220, 3500
"""Display time of all evaluations together, of each at least, and of the last."""


@dataclass(frozen=True)
class WallFrame:
    """One evaluation.

    Attributes:
        when: when it was, as in “After iteration 8”.
        solved: a character for each puzzle: 1 for solved, 0 for failed, – for not played.
    """

    when: str
    solved: str


def draw_wall(title: str, frames: Sequence[WallFrame], kind: str, noun: str) -> bytes:
    """Draw an animation of a kind in animation.CONTENT_TYPES, of at least one frame. `noun`: name of a puzzle."""
    durations = [max(MIN_MS, WHOLE_MS // len(frames))] * len(frames)
    durations[-1] = LAST_MS

    def frame(number: int) -> Image.Image:
        before = frames[number - 1].solved if number else frames[number].solved
        return _frame(title, frames[number], before, noun)

    return encode(frame, durations, kind)


def grid(count: int, width: int, height: int) -> tuple[int, float]:
    """Return the columns and the size of square cells that are as large as fits the area, in few rows."""

    def size(columns: int) -> float:
        return min(MAX_CELL, width / columns, height / -(-count // columns))

    columns = max(range(1, count + 1), key=lambda number: (size(number), number))
    return columns, size(columns)


def _frame(title: str, frame: WallFrame, before: str, noun: str) -> Image.Image:
    image = Image.new("RGB", SIZE, LIGHT["bg"])
    draw = ImageDraw.Draw(image)
    width, height = SIZE
    played, won = len(frame.solved.replace("–", "")), frame.solved.count("1")
    draw_brand(draw, MARGIN + 9, 40, 8)
    write(draw, (MARGIN + 26, 46), fitted(title, 18, width - 2 * MARGIN - 26), 18, LIGHT["soft"])
    write(draw, (MARGIN, 98), f"{won / max(1, played):.0%}", 44, INK, bold=0.02)
    write(draw, (MARGIN + 118, 82), f"{won} of {plural(played, noun)} solved", 20, INK, bold=0.015)
    write(draw, (MARGIN + 118, 106), frame.when, 17, LIGHT["soft"])
    number, step = grid(len(frame.solved), width - 2 * MARGIN, height - HEAD - MARGIN // 2)
    for index, (now, was) in enumerate(zip(frame.solved, before, strict=True)):
        row, column = divmod(index, number)
        _cell(draw, MARGIN + column * step, HEAD + row * step, step * (1 - GAP), now, was)
    return image


def _cell(draw: Draw, x: float, y: float, side: float, now: str, was: str) -> None:
    """Draw a puzzle: newly solved with a plus, newly lost with a minus."""
    box, radius, line = (x, y, x + side, y + side), side * 0.2, max(1, round(side * 0.1))
    new = {now, was} == {"0", "1"}
    if now == "–":
        draw.rounded_rectangle(box, radius, None, LIGHT["line"], line)
    elif now == "1":
        draw.rounded_rectangle(box, radius, LIGHT["box-done" if new else "good"])
    elif new:
        draw.rounded_rectangle(box, radius, LIGHT["warn-wash"], LIGHT["warn"], line)
    else:
        draw.rounded_rectangle(box, radius, LIGHT["line"])
    if new:
        ink, middle, reach = LIGHT["panel" if now == "1" else "warn"], (x + side / 2, y + side / 2), side * 0.22
        draw.line((middle[0] - reach, middle[1], middle[0] + reach, middle[1]), ink, line)
        if now == "1":
            draw.line((middle[0], middle[1] - reach, middle[0], middle[1] + reach), ink, line)
