"""Pictures of mistakes: the mark on the board, and animations that do not give away the end."""

from __future__ import annotations

from dataclasses import asdict
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageColor

from tests.webapp.trajectories import marked_boards
from tests.webapp.trajectories.scripted_attempt import BUDGETS, LOCKED, played, sokoban
from webapp.trajectories.mistakes.judge import find_marks, verdict
from webapp.trajectories.mistakes.steps import judge_actions
from webapp.trajectories.positions import key_position, position_at, positions
from webapp.trajectories.render.animation import MARK_MS, VERDICT_MS, animate
from webapp.trajectories.render.board import draw_board
from webapp.trajectories.render.card import Caption, draw_preview, get_judgement
from webapp.trajectories.render.mistake_label import fault_line, marked_text
from webapp.trajectories.render.palette import LIGHT

CAPTION = Caption("Sokoban", "stuck at turn 2, action 3: the box is in a corner", False, "iteration 3", 2)
SIDE = 360


@pytest.fixture
def data() -> dict[str, Any]:
    found = played(sokoban(), LOCKED)
    steps = list(judge_actions(found, "Sokoban", BUDGETS))
    marks = find_marks(steps)
    judged = verdict(found, steps, marks, BUDGETS)
    assert judged is not None
    return found | {"marks": [asdict(mark) for mark in marks], "verdict": asdict(judged)}


def count(image: Image.Image, name: str) -> int:
    """Pixels of almost the palette's colour."""
    pixels = np.asarray(image.convert("RGB"), dtype=int)
    return int((abs(pixels - ImageColor.getrgb(LIGHT[name])) <= 10).all(axis=2).sum())


def test_the_board_has_a_red_frame_and_an_arrow_of_the_better_move(data: dict[str, Any]) -> None:
    position = position_at(positions(data), *key_position(data))
    assert (position.turn, position.action) == (1, 2)
    plain = draw_board(position.board, SIDE)
    marked = draw_board(position.board, SIDE, data["marks"][1])
    assert count(plain, "bad") == 0
    assert count(marked, "bad") > 300
    assert count(marked, "panel") > count(plain, "panel") + 100  # around the arrow, which is seen on any ground
    assert count(draw_board(position.board, SIDE, data["marks"][0]), "warn") > 300


def test_the_preview_opens_at_the_verdict_and_writes_it_in_red(data: dict[str, Any]) -> None:
    position = position_at(positions(data), *key_position(data))
    card = draw_preview(position, CAPTION, get_judgement(data))
    assert count(card, "bad-wash") > 10_000
    assert count(draw_preview(position, CAPTION), "bad-wash") < 1_000


def test_an_animation_marks_mistakes_in_time_and_keeps_the_outcome_for_the_end(data: dict[str, Any]) -> None:
    film = Image.open(BytesIO(animate(data, CAPTION, "gif")))
    red, times = [], []
    for number in range(film.n_frames):  # type: ignore[attr-defined]
        film.seek(number)
        red.append(count(film.convert("RGB"), "bad"))
        times.append(film.info["duration"])
    assert len(red) == 7
    assert max(red[:6]) < 100 < 500 < red[6], red  # reduced colours: some edges look alike
    assert times[5] == MARK_MS
    assert times[6] >= VERDICT_MS


@pytest.mark.parametrize("name", ["bandit", "countdown", "shop"])
def test_boards_without_cells_show_what_was_chosen_and_what_was_better(name: str) -> None:
    data = getattr(marked_boards, name)()
    judgement = get_judgement(data)
    (place, mark) = list(judgement.marks.items())[-1]
    board = mark.get("before", position_at(positions(data), *place).board)
    plain, marked = draw_board(board, SIDE), draw_board(board, SIDE, mark)
    assert count(plain, "bad") == count(plain, "good") == 0
    assert count(marked, "bad") > 150
    assert count(marked, "good") > 100
    worse = draw_board(board, SIDE, {**mark, "kind": "inaccuracy", "glyph": "?!"})
    assert count(worse, "warn") > 150
    assert count(worse, "bad") == 0


def test_a_page_is_drawn_as_it_was_when_the_decision_was_made() -> None:
    data = marked_boards.shop()
    (place, mark) = list(get_judgement(data).marks.items())[-1]
    after = position_at(positions(data), *place).board
    assert after["title"] == "Thank you for your order"
    assert mark["played"] in str(mark["before"]["sections"])
    caption = Caption("WebShop", "bought another product", False, "iteration 3", 3)
    card = np.asarray(draw_preview(position_at(positions(data), *place), caption, get_judgement(data)))
    wanted = np.asarray(draw_board(mark["before"], 550, mark))
    assert (card[100:500, 100:500] == wanted[60:460, 60:460]).all()


def test_what_the_picture_of_a_page_does_not_show_stands_at_its_end() -> None:
    data = marked_boards.shop()
    (_, mark) = list(get_judgement(data).marks.items())[-1]
    shown = draw_board(mark["before"], SIDE, mark)
    elsewhere = draw_board(mark["before"], SIDE, {**mark, "better": ["click[no such link]"]})
    end = (0, SIDE - 30, SIDE, SIDE)
    assert count(shown.crop(end), "good") == 0
    assert count(elsewhere.crop(end), "good") > 5


def test_the_wrong_line_of_a_text_is_the_last_one_with_the_answer() -> None:
    mark = {"kind": "mistake", "glyph": "?", "played": "7", "better": ["8"]}
    text = "How much is 7 + 1?\n\n7: wrong\n9: wrong"
    assert fault_line(text.splitlines(), "7") == 2
    assert fault_line(text.splitlines(), "") == -1
    assert marked_text(text, mark) == [
        ("How much is 7 + 1?", ""),
        ("7: wrong  ?", "bad"),
        ("9: wrong", ""),
        ("Better: 8", "good"),
    ]
    assert marked_text("A question", mark)[1] == ("7  ?", "bad"), "an answer that the text does not repeat"
