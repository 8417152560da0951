"""Pictures and animations of a film: the way through a grid, sizes, and what makes two of them differ."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from webapp.trajectories.render.film import (
    ANIMATION_WIDTH,
    MAX_MOMENTS,
    PICTURE_WIDTH,
    Film,
    FilmFrame,
    draw_film,
    layout,
    moments,
    picture_size,
)
from webapp.trajectories.render.walk import BoardStep, walk

LEGEND = {"@": {"name": "robot", "tone": "player"}, "k": {"name": "key", "tone": "piece"}}


def grid(*rows: str, theme: str = "sokoban", **more: Any) -> dict[str, Any]:
    return {"kind": "grid", "theme": theme, "rows": list(rows)} | more


def executed(board: dict[str, Any]) -> dict[str, Any]:
    return {"status": "executed", "board": board}


STEPS = walk(grid("######", "#@$ .#", "######"), [executed(grid("######", "# @$.#", "######"))])


def frame(iteration: int, steps: list[BoardStep] = STEPS, **more: Any) -> FilmFrame:
    plain: dict[str, Any] = {
        "outcome": "failed",
        "success": False,
        "reward": -1.2,
        "answer": "Right",
        "first_success": False,
    }
    return FilmFrame(iteration=iteration, steps=steps, **(plain | more))


def film(*frames: FilmFrame) -> Film:
    return Film("How it learned: Sokoban", "Same puzzle at 7 iterations", frames)


def opened(file: bytes) -> Image.Image:
    return Image.open(BytesIO(file))


def test_a_walk_has_the_player_and_the_pushes() -> None:
    boards = [grid("@$ .", "    "), grid(" @$.", "    "), grid("  @*", "    "), grid("   *", "  @ ")]
    steps = walk(boards[0], [executed(board) for board in boards[1:]])
    assert [step.player for step in steps] == [(0, 0), (1, 0), (2, 0), (2, 1)]
    assert [step.push for step in steps] == [None, ((1, 0), (2, 0)), ((2, 0), (3, 0)), None]


def test_pieces_of_a_legend_move_only_to_a_cell_beside_them() -> None:
    before = grid("@k  ", theme="rooms", legend=LEGEND)
    beside, away = (grid(rows, theme="rooms", legend=LEGEND) for rows in (" @k ", "@  k"))
    assert walk(before, [executed(beside)])[1].push == ((1, 0), (2, 0))
    assert walk(before, [executed(away)])[1].push is None


def test_actions_without_effect_are_no_steps() -> None:
    start = grid("@ ")
    assert len(walk(start, [{"status": "ignored"}, {"status": "illegal", "board": None}])) == 1


@pytest.mark.parametrize(
    "board",
    [
        {},
        {"kind": "arms", "arms": []},
        grid("@ ", theme="unknown"),
        grid(*["#" * 65] * 65),
        {"kind": "text", "text": ""},
    ],
)
def test_boards_without_cells_have_no_walk(board: dict[str, Any]) -> None:
    assert walk(board, [executed(board)]) == []


@given(count=st.integers(1, 12), width=st.sampled_from([PICTURE_WIDTH, ANIMATION_WIDTH]))
def test_every_frame_lies_inside_the_picture(count: int, width: int) -> None:
    sizes = layout(count, width)
    corners = [sizes.corner(number) for number in range(count)]
    assert len(set(corners)) == count
    assert all(x >= 0 and x + sizes.tile <= width and y + sizes.tile < sizes.height for x, y in corners)


def test_the_picture_is_1200_pixels_wide_and_shows_what_differs() -> None:
    plain = film(frame(0), frame(8))
    picture = draw_film(plain, "png")
    assert opened(picture).size == picture_size(2)
    assert opened(picture).width == 1200
    others = [
        film(frame(0), frame(8, STEPS[:1])),  # another path
        film(frame(0), frame(16)),
        film(frame(0), frame(8, outcome="solved", success=True)),
        film(frame(0), frame(8, outcome="failed", first_success=True)),
        film(frame(0), frame(8, reward=2.0)),
        replace(plain, facts="Same puzzle at 9 iterations"),
    ]
    assert len({picture, *(draw_film(other, "png") for other in others)}) == len(others) + 1


def test_the_last_answer_stands_for_environments_without_cells() -> None:
    plain, other = (draw_film(film(frame(0, []), frame(8, [], answer=text)), "png") for text in ("3 * 4", "3 + 4"))
    assert plain != other


@pytest.mark.parametrize("kind", ["webp", "gif"])
def test_the_animation_has_a_frame_for_each_step_of_the_longest_walk(kind: str) -> None:
    file = opened(draw_film(film(frame(0, STEPS[:1]), frame(8)), kind))
    assert file.width == ANIMATION_WIDTH
    assert getattr(file, "n_frames") == len(STEPS)  # noqa: B009 - Pillow declares it for some formats only


def test_an_animation_without_steps_is_a_single_frame() -> None:
    assert opened(draw_film(film(frame(0, [])), "webp")).width == ANIMATION_WIDTH


@given(last=st.integers(0, 2000))
def test_moments_run_from_the_start_to_the_end(last: int) -> None:
    chosen = moments(last)
    assert (chosen[0], chosen[-1]) == (0, last)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(last + 1, MAX_MOMENTS)
