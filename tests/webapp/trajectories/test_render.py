"""Images of boards and of links: every kind of board is drawn in place, with any text beside it."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageChops, ImageColor

import envs
from envs.registry import BUILT_IN
from tests.webapp.page_requests import Visitors
from tests.webapp.trajectories.shared_trajectory import link, story, trajectory, who
from webapp.play.environment_info import STARTS
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.positions import (
    Position,
    key_position,
    position_at,
    position_query,
    positions,
    requested_position,
)
from webapp.trajectories.render import text as pictures_text
from webapp.trajectories.render.board import board_svg, draw_board
from webapp.trajectories.render.card import Caption, draw_preview
from webapp.trajectories.render.palette import LIGHT
from webapp.trajectories.render.text import fitted, width, wrapped
from webapp.trajectories.serialize import trajectory_data

__all__ = ["link", "story", "trajectory", "who"]

SIDE = 240
FRAME_SIDE = 360
CAPTION = Caption("Sokoban", "solved in 2 turns, 6 actions", True, "iteration 37", 5)
LEGEND = {
    "#": {"name": "hedge", "tone": "wall"},
    "a": {"name": "apple", "tone": "good", "glyph": "⚷"},
    "k": {"name": "key", "tone": "piece", "glyph": "K1"},
    "d": {"name": "ditch", "tone": "danger"},
    "@": {"name": "gardener", "tone": "player"},
    "中": {"name": "centre", "tone": "floor", "glyph": "中"},
}


def turn(**more: Any) -> dict[str, Any]:
    plain = {"turn": 0, "thought": "I push.", "actions": [], "format_valid": True, "response": ""}
    return plain | {"reward": -0.1, "terms": {"environment": -0.1}} | more


def close(image: Image.Image, x: float, y: float, name: str) -> bool:
    """Whether the colour at that cell (of SIDE / cells pixels) is the palette's, within what reducing blurs."""
    found, wanted = image.getpixel((int(x), int(y))), ImageColor.getrgb(LIGHT[name])
    assert isinstance(found, tuple)
    return all(abs(a - b) <= 12 for a, b in zip(found, wanted, strict=True))


def test_sokoban_is_drawn_cell_by_cell() -> None:
    image = draw_board({"kind": "grid", "theme": "sokoban", "rows": ["####", "#$*#", "#@.#", "####"]}, SIDE)
    assert image.size == (SIDE, SIDE)
    cell = SIDE / 3  # two cells and half a cell of wall on each side

    def at_cell(x: float, y: float, name: str) -> bool:
        return close(image, x * cell, y * cell, name)

    assert at_cell(0.3, 0.1, "wall")
    assert at_cell(1.3, 1.15, "box")
    assert at_cell(2.3, 1.32, "box-done")
    assert at_cell(1, 2.2, "accent")
    assert at_cell(2, 2, "target")


def test_a_lake_and_a_legend_board_render_differently() -> None:
    cell = SIDE / 3  # two cells and half a cell of frame on each side
    lake = draw_board({"kind": "grid", "theme": "frozen_lake", "rows": ["@ ", "OG"]}, SIDE)
    assert close(lake, 2 * cell, 2.3 * cell, "ice-alt") or close(lake, 2 * cell, cell, "ice-alt")
    assert close(lake, cell, 2.1 * cell, "hole")
    garden = draw_board({"kind": "grid", "theme": "gardens", "rows": ["#a", "kd"], "legend": LEGEND}, SIDE)
    assert close(garden, 1.7 * cell, 0.7 * cell, "good-wash")
    assert close(garden, 2 * cell, 1.7 * cell, "bad-wash")
    assert close(garden, cell, 1.7 * cell, "box")


def test_painted_tiles_keep_their_colour_under_a_glyph() -> None:
    signs = ("white", "yellow", "orange", "red", "green", "blue")
    legend = {tone[0]: {"name": tone, "tone": tone, "glyph": "2048"} for tone in signs}
    image = draw_board({"kind": "grid", "theme": "tiles", "rows": ["wyo", "rgb"], "legend": legend}, SIDE)
    cell = SIDE / 4  # three cells and half a cell of frame on each side
    top = SIDE / 2 - cell
    for number, tone in enumerate(signs):
        x, y = 0.5 + number % 3 + 0.5, number // 3 + 0.2
        assert close(image, x * cell, top + y * cell, f"paint-{tone}"), tone


def test_a_question_is_drawn_as_its_grid():
    grid = {"kind": "grid", "theme": "gardens", "rows": ["#a", "kd"], "legend": LEGEND}
    assert draw_board({"kind": "text", "text": "Which way?", "grid": grid}, SIDE) == draw_board(grid, SIDE)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_environment_has_an_image(name: str) -> None:
    env = envs.make(name)
    env.reset(seed=5, options=STARTS.get(name))
    image = draw_board(env.board().model_dump(exclude_none=True), SIDE)
    assert image.size == (SIDE, SIDE)
    assert len(image.getcolors(SIDE * SIDE) or []) > 2  # a piece on the ground


@pytest.mark.parametrize(
    "board",
    [
        {"kind": "text", "text": ""},
        {"kind": "text", "text": "ein sehr langes Wort: " + "Donaudampfschifffahrt" * 60},
        {"kind": "grid", "theme": "unknown", "rows": ["+--+", "|@ |"]},
        {"kind": "grid", "theme": "sokoban", "rows": []},
        {"kind": "grid", "theme": "sokoban", "rows": ["#" * 40]},
        {"kind": "grid", "theme": "g", "rows": ["中@", "x"], "legend": LEGEND},
        {"kind": "arms", "arms": []},
        {"kind": "arms", "arms": [{"name": "Ünïcode " * 9, "pulls": 1, "total": 1.0, "last": 1.0}] * 7},
        {"kind": "page", "title": "", "address": "x" * 300, "sections": []},
        {
            "kind": "page",
            "title": "t",
            "address": "a",
            "last": "click[" + "y" * 200,
            "sections": [
                {"layout": "choices", "title": "size", "items": [{"text": "z" * 400, "chosen": True}] * 40},
                {"layout": "text", "items": [{"text": "w"}] * 99},
            ],
        },
        {},
    ],
)
def test_unusual_boards_are_drawn_too(board: dict[str, Any]) -> None:
    assert draw_board(board, SIDE).size == (SIDE, SIDE)


@pytest.mark.parametrize(
    "shown",
    [
        turn(),
        turn(thought=""),
        turn(thought="", format_valid=False, response="<think>never ends"),
        turn(thought="Wörter mit ß, → und 中文 🙂\n\nund Absätzen " * 40),
        turn(actions=[{"text": "x" * 300, "status": "illegal"}] * 12),
    ],
)
def test_a_card_fits_any_thought(shown: dict[str, Any]) -> None:
    board = {"kind": "grid", "theme": "sokoban", "rows": ["###", "#@#", "###"]}
    for action in (-1, 0, 7):
        assert draw_preview(Position(0, action, board, shown), CAPTION).size == (1200, 630)
    assert draw_preview(Position(0, -1, board, None), CAPTION).size == (1200, 630)
    unrewarded = draw_preview(Position(0, -1, board, shown | {"terms": {}}), CAPTION)
    assert unrewarded != draw_preview(Position(0, -1, board, shown), CAPTION)


def test_text_stays_inside_its_box() -> None:
    text = "The box is at row 2, column 3 and " * 20
    lines = wrapped(text, 20, 300, 5)
    assert len(lines) == 5
    assert lines[-1].endswith("…")
    assert all(width(line, 20) <= 300 for line in lines)
    assert " ".join(wrapped("one two three four", 20, 90, 9)) == "one two three four"
    assert wrapped("", 20, 300, 5) == []
    assert width(fitted("m" * 90, 20, 200), 20) <= 200


def test_without_fallback_fonts_unknown_characters_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures_text, "system_font", lambda size: None)
    monkeypatch.setattr(pictures_text, "_has_glyph", pictures_text._has_glyph.__wrapped__)
    face, written = pictures_text.choose("Käse × 2 → ½ 中", 20)
    assert face.getname()[0] == "Aileron"
    assert written == "Kase x 2 -> 1/2 ?"


def played(turns: int, actions: int) -> dict[str, Any]:
    boards = iter(range(1, 1000))
    return {
        "board": {"kind": "text", "text": "0"},
        "turns": [
            turn(
                turn=number,
                actions=[
                    {"text": "a", "status": "executed", "board": {"kind": "text", "text": str(next(boards))}}
                    for _ in range(actions)
                ],
            )
            for number in range(turns)
        ],
        "lost_at": None,
    }


def test_positions_match_the_player() -> None:
    line = positions(played(2, 2))
    assert [(step.turn, step.action, step.board["text"]) for step in line] == [
        (0, -1, "0"),
        (0, 0, "1"),
        (0, 1, "2"),
        (1, -1, "2"),
        (1, 0, "3"),
        (1, 1, "4"),
    ]
    assert position_at(line, 1, 0).board["text"] == "3"
    assert position_at(line, 0, 99).board["text"] == "2"
    assert position_at(line, 99, 99).board["text"] == "4"
    assert key_position(played(3, 1)) == (2, -1)
    assert key_position(played(3, 1) | {"lost_at": {"turn": 1, "action": 0, "reason": "r"}}) == (1, -1)
    assert len(positions(played(0, 0))) == 1


def test_position_urls_count_from_one() -> None:
    assert requested_position({"turn": "2", "action": "3"}) == (1, 2)
    assert requested_position({"turn": "2"}) == (1, -1)
    assert requested_position({"turn": "0"}) == (0, -1)
    assert requested_position({"action": "3"}) is None
    assert requested_position({"turn": "two"}) is None
    assert requested_position({"turn": "²"}) is None
    assert position_query(1, 2) == "?turn=2&action=3"
    assert position_query(1, -1) == "?turn=2"


def picture(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def test_the_image_of_a_link_shows_its_position_and_is_cached(link: ShareLink, who: Visitors) -> None:
    address = f"/s/{link.token}/picture.png"
    first = who.anonymous.get(f"{address}?turn=1")
    assert (first.status_code, first["Content-Type"]) == (200, "image/png")
    assert picture(first.content).size == (1200, 630)
    other = who.anonymous.get(f"{address}?turn={link.trajectory.turn_count}&action=99")
    assert ImageChops.difference(picture(first.content), picture(other.content)).getbbox() is not None
    again = who.anonymous.get(f"{address}?turn=1", headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "max-age" in first["Cache-Control"]
    assert first.cookies == {}


def test_every_position_has_one_image_however_it_is_named(trajectory: Trajectory, who: Visitors) -> None:
    data = trajectory_data(trajectory)
    line = positions(data)
    names: dict[str, set[int]] = {}
    for turn in (0, 1, trajectory.turn_count - 1, trajectory.turn_count, 999_998):
        for action in (-1, 0, 1, 999_998):
            image = who.viewer.get(f"/t/{trajectory.slug}/picture.png{position_query(turn, action)}")
            names.setdefault(image["ETag"], set()).add(line.index(position_at(line, turn, action)))
    assert all(len(shown) == 1 for shown in names.values())
    assert len(names) == len(set.union(*names.values()))
    usual = {
        who.viewer.get(f"/t/{trajectory.slug}/picture.png{query}")["ETag"] for query in ("", "?turn=x", "?action=2")
    }
    assert len(usual) == 1  # the picture with the verdict
    assert not usual & set(names)


def test_the_board_of_a_position_is_a_vector_graphic_for_readers(trajectory: Trajectory, who: Visitors) -> None:
    address = f"/t/{trajectory.slug}/board.svg"
    files = [who.viewer.get(address + query) for query in ("?turn=1", f"?turn={trajectory.turn_count}&action=99", "")]
    assert {file["Content-Type"] for file in files} == {"image/svg+xml"}
    assert all(ElementTree.fromstring(file.content).tag.endswith("svg") for file in files)
    assert len({file.content for file in files[:2]}) == len({file["ETag"] for file in files[:2]}) == 2
    assert who.outsider.get(address).status_code == 404


@pytest.mark.parametrize("text", ["w" * 320_000, "word " * 64_000, " " * 64_000 + "w", "w\n" * 64_000])
def test_a_long_text_is_measured_only_as_far_as_it_is_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def counted(part: str, size: int) -> float:
        measured.append(len(part))
        return width(part, size)

    monkeypatch.setattr(pictures_text, "width", counted)
    lines = wrapped(text, 20, 300, 4)
    assert len(lines) <= 4
    assert sum(measured) < 40_000
    assert fitted(text, 20, 300).endswith("…")


def test_a_split_word_keeps_all_its_letters() -> None:
    word = "".join(chr(97 + number % 26) for number in range(200))
    lines = wrapped(word, 20, 300, 50)
    assert "".join(lines) == word
    assert all(width(line, 20) <= 300 for line in lines)


@pytest.mark.parametrize(
    "board",
    [
        {"kind": "grid", "theme": "sokoban", "rows": ["#" * 300] * 300},
        {"kind": "grid", "theme": "sokoban", "rows": ["$" * 64] * 64},
        {"kind": "grid", "theme": "other", "rows": ["@" * 200], "legend": LEGEND},
        {"kind": "arms", "arms": [{"name": "lever", "pulls": 1, "last": 0.5}] * 2000},
        {
            "kind": "page",
            "title": "T",
            "address": "A",
            "sections": [{"layout": "list", "items": [{"text": "i"}] * 9000}],
        },
    ],
)
def test_huge_boards_are_drawn_in_limited_steps(board: dict[str, Any]) -> None:
    assert draw_board(board, FRAME_SIDE).size == (FRAME_SIDE, FRAME_SIDE)
    assert len(board_svg(board)) < 1_500_000


def test_joiners_and_selectors_are_not_drawn_as_question_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures_text, "system_font", lambda size: None)
    pictures_text._has_glyph.cache_clear()
    try:
        assert pictures_text.choose("a\u200d\ufe0fb", 16)[1] == "ab"
    finally:
        pictures_text._has_glyph.cache_clear()
