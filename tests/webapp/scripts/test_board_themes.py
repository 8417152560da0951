"""Boards of the page and boards of pictures: the same pieces and the same colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from envs.base import MAX_GLYPH, Tone
from tests.webapp.javascript import evaluate
from webapp.trajectories.render.board import GLYPH_SIZES, TONES
from webapp.trajectories.render.mini_board import mini_board
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.view import THEMES

STATIC = Path(__file__).parents[3] / "static"
STYLES = STATIC / "css" / "base.css"
PIECES = {"piece", "player"}


def test_a_character_means_the_same_on_the_page_and_in_pictures() -> None:
    known = [(theme, character, *meaning) for theme, all in THEMES.items() for character, meaning in all.items()]
    boards = [{"kind": "grid", "theme": theme, "rows": [character]} for theme, character, *_ in known]
    parsed = evaluate("board/board.js", "data.map(parseGrid)", boards)
    for (theme, character, ground, piece), board in zip(known, parsed, strict=True):
        pieces = ["box"] * len(board["boxes"]) + ["player"] * len(board["players"])
        assert (board["ground"], pieces) == ([[ground]], [piece] if piece else []), (theme, character)


def test_pictures_have_the_colours_of_the_light_theme() -> None:
    styles = dict(re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}),", STYLES.read_text(encoding="utf-8")))
    assert {name: styles[name.replace("_", "-")] for name in LIGHT} == LIGHT
    assert styles["ink"] == INK


def test_a_tone_of_the_ground_has_a_colour_on_pages_in_pictures_and_in_small_boards() -> None:
    for tone in set(get_args(Tone)) - {"floor", "wall"} - PIECES:
        for sheet, selector in (("player.css", f".grid .tone.{tone}"), ("mini_board.css", f".mini .{tone}")):
            assert re.search(rf"{re.escape(selector)}\b", (STATIC / "css" / sheet).read_text(encoding="utf-8")), sheet
        assert tone in TONES
        legend = {"x": {"name": "thing", "tone": tone}}
        drawn = str(mini_board({"kind": "grid", "theme": "other", "rows": ["x "], "legend": legend}))
        assert f'class="{tone}"' in drawn


def test_the_scripts_know_every_tone_and_length_of_a_glyph() -> None:
    (union,) = re.findall(r"@typedef \{(.*?)\} Tone\b", (STATIC / "js" / "types.js").read_text(encoding="utf-8"))
    assert {name.strip('"') for name in union.split("|")} == set(get_args(Tone))
    (sizes,) = re.findall(r"const SIZES = \[(.*?)\]", (STATIC / "js/board/legend.js").read_text(encoding="utf-8"))
    assert tuple(map(float, sizes.split(","))) == GLYPH_SIZES
    assert len(GLYPH_SIZES) == MAX_GLYPH
