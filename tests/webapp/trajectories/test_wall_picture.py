"""The wall of a suite's puzzles as an animation: what an evaluation solved, and what it changed, is marked."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image

from webapp.trajectories.render.palette import LIGHT
from webapp.trajectories.render.wall import HEAD, MARGIN, MAX_CELL, SIZE, WallFrame, draw_wall, grid


@pytest.mark.parametrize("count, columns, size", [(1, 1, 84), (6, 6, 84), (64, 11, 75), (256, 22, 38), (1024, 43, 19)])
def test_cells_are_as_large_as_fits(count: int, columns: int, size: int) -> None:
    found, side = grid(count, 828, 470)
    assert (found, round(side)) == (columns, size)


def test_each_frame_shows_what_its_evaluation_solved() -> None:
    frames = [WallFrame("Before training", "100–"), WallFrame("After iteration 8", "0101")]
    animation = Image.open(BytesIO(draw_wall("Sokoban", frames, "webp", "puzzle")))
    assert animation.size == SIZE
    assert [_cells(animation, number, 4) for number in range(2)] == [
        ["good", "line", "line", "bg"],
        ["warn-wash", "box-done", "line", "good"],
    ]


def _cells(animation: Image.Image, number: int, count: int) -> list[str]:
    """Names of the colours near the upper edge of each cell."""
    animation.seek(number)
    picture = animation.convert("RGB")
    colours = [picture.getpixel((MARGIN + round((at + 0.3) * MAX_CELL), HEAD + 14)) for at in range(count)]
    return [_nearest(colour) for colour in colours]


def _nearest(colour: object) -> str:
    assert isinstance(colour, tuple)

    def distance(name: str) -> int:
        values = [int(LIGHT[name][at : at + 2], 16) for at in (1, 3, 5)]
        return sum(abs(own - other) for own, other in zip(values, colour, strict=True))

    return min(("good", "box-done", "warn-wash", "line", "bg"), key=distance)
