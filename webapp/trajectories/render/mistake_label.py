"""A mistake on a board without cells, as SVG: glyph and frame of the chosen element, and the better one.

Matches static/js/board/mistake_labels.js.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webapp.trajectories.render.palette import LIGHT
from webapp.trajectories.render.svg import Box, plate, write
from webapp.trajectories.render.text import width

Mark = Mapping[str, Any]
"""A mark in the data of a trajectory (webapp/trajectories/mistakes)."""
COLOURS = {"blunder": "bad", "mistake": "bad", "inaccuracy": "warn"}
BETTER = "better"
MAX_SHOWN = 80
"""Maximum number of characters of an action in a picture."""


def get_mark_colour(mark: Mark) -> str:
    """Return the colour of the mark's class."""
    return LIGHT[COLOURS[mark["kind"]]]


def badge(right: float, middle: float, mark: Mark, size: float) -> str:
    """Draw the glyph on a disc with this right edge and vertical middle; `size` is its height."""
    point, x, edge = size * (0.5 if len(mark["glyph"]) > 1 else 0.62), right - size / 2, max(1, size / 14)
    disc = (right - size, middle - size / 2, right, middle + size / 2)
    glyph = write((x, middle + 0.36 * point), mark["glyph"], point, "#ffffff", anchor="middle", bold=0.03)
    return plate(disc, get_mark_colour(mark), size / 2, LIGHT["panel"], edge) + glyph


def better_badge(right: float, middle: float, size: float) -> str:
    """Draw the word “better” in a green frame with this right edge and vertical middle; `size` is its height."""
    point = round(size * 0.62)
    wide = width(BETTER, point) + size * 0.6
    box = (right - wide, middle - size / 2, right, middle + size / 2)
    word = write((right - wide / 2, middle + 0.35 * point), BETTER, point, LIGHT["good"], anchor="middle", bold=0.01)
    return plate(box, LIGHT["panel"], size * 0.25, LIGHT["good"], size / 12) + word


def frame(box: Box, colour: str, line: float, round: float) -> str:
    """Draw a frame around the outside of a box."""
    left, top, right, bottom = box
    return plate((left - line, top - line, right + line, bottom + line), "none", round, colour, line)


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
