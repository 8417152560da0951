"""A mistake on the picture of a board without cells: glyph and frame of the chosen element, and the better one.

Matches static/js/board/mistake_labels.js in the light theme.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webapp.trajectories.render.palette import LIGHT
from webapp.trajectories.render.text import Draw, width, write

Mark = Mapping[str, Any]
"""A mark in the data of a trajectory (webapp/trajectories/mistakes)."""
COLOURS = {"blunder": "bad", "mistake": "bad", "inaccuracy": "warn"}
BETTER = "better"
MAX_SHOWN = 80
"""Maximum number of characters of an action in a picture."""
Box = tuple[float, float, float, float]


def get_mark_colour(mark: Mark) -> str:
    """Return the colour of the mark's class."""
    return LIGHT[COLOURS[mark["kind"]]]


def badge(draw: Draw, right: float, middle: float, mark: Mark, size: int) -> None:
    """Draw the glyph on a disc with this right edge and vertical middle; `size` is its height in pixels."""
    radius = size / 2
    box = (right - size, middle - radius, right, middle + radius)
    draw.ellipse(box, get_mark_colour(mark), LIGHT["panel"], max(1, size // 14))
    point = round(size * (0.5 if len(mark["glyph"]) > 1 else 0.62))
    write(draw, (right - radius, middle), mark["glyph"], point, "#ffffff", anchor="mm", bold=0.03)


def better_badge(draw: Draw, right: float, middle: float, size: int) -> None:
    """Draw the word “better” in a green frame with this right edge and vertical middle, in pixels."""
    point = round(size * 0.62)
    wide = width(BETTER, point) + size * 0.6
    box = (right - wide, middle - size / 2, right, middle + size / 2)
    draw.rounded_rectangle(box, size * 0.25, LIGHT["panel"], LIGHT["good"], max(1, size // 12))
    write(draw, (right - wide / 2, middle), BETTER, point, LIGHT["good"], anchor="mm", bold=0.01)


def frame(draw: Draw, box: Box, colour: str, line: float, round: float) -> None:
    """Draw a frame around the outside of a box."""
    left, top, right, bottom = box
    draw.rounded_rectangle((left - line, top - line, right + line, bottom + line), round, None, colour, int(line))


def fault_line(lines: list[str], played: str) -> int:
    """Return the index of the last line that contains the answer; −1 if there is none."""
    start = played.strip()[:MAX_SHOWN]
    matches = [number for number, line in enumerate(lines) if start and start in line]
    return matches[-1] if matches else -1


def marked_text(text: str, mark: Mark) -> list[tuple[str, str]]:
    """Return paragraphs with the names of their colours: the wrong answer with its glyph, and a better one."""
    lines = text.splitlines()
    at = fault_line(lines, str(mark["played"]))
    if at < 0:
        lines, at = [*lines, str(mark["played"])[:MAX_SHOWN]], len(lines)
    lines[at] += f"  {mark['glyph']}"
    paragraphs = [(line, COLOURS[mark["kind"]] if number == at else "") for number, line in enumerate(lines)]
    if mark["better"]:
        paragraphs.append((f"Better: {str(mark['better'][0])[:MAX_SHOWN]}", "good"))
    return [(line, colour) for line, colour in paragraphs if line.strip()]
