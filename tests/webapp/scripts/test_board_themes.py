"""Boards of the page and boards of pictures: the same pieces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from envs.base import MAX_GLYPH, Tone
from tests.webapp.javascript import evaluate
from webapp.trajectories.render.grid import GLYPH_SIZES
from webapp.trajectories.render.view import THEMES, TONES

STATIC = Path(__file__).parents[3] / "static"
PIECES = {"piece", "player"}


def test_a_character_means_the_same_on_the_page_and_in_pictures() -> None:
    known = [(theme, character, *meaning) for theme, all in THEMES.items() for character, meaning in all.items()]
    boards = [{"kind": "grid", "theme": theme, "rows": [character]} for theme, character, *_ in known]
    parsed = evaluate("board/board.js", "data.map(parseGrid)", boards)
    for (theme, character, ground, piece), board in zip(known, parsed, strict=True):
        pieces = ["box"] * len(board["boxes"]) + ["player"] * len(board["players"])
        assert (board["ground"], pieces) == ([[ground]], [piece] if piece else []), (theme, character)


def test_every_tone_is_a_square_or_a_piece() -> None:
    assert set(TONES) == set(get_args(Tone)) - {"wall"} - PIECES


def test_the_scripts_know_every_tone_and_length_of_a_glyph() -> None:
    (union,) = re.findall(r"@typedef \{(.*?)\} Tone\b", (STATIC / "js" / "types.js").read_text(encoding="utf-8"))
    assert {name.strip('"') for name in union.split("|")} == set(get_args(Tone))
    (sizes,) = re.findall(r"const SIZES = \[(.*?)\]", (STATIC / "js/board/legend.js").read_text(encoding="utf-8"))
    assert tuple(map(float, sizes.split(","))) == GLYPH_SIZES
    assert len(GLYPH_SIZES) == MAX_GLYPH
