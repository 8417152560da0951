"""Boards of the page and boards of pictures: the same pieces and the same colours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.webapp.javascript import evaluate
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.view import THEMES

STYLES = Path(__file__).parents[3] / "static" / "css" / "base.css"


@pytest.mark.parametrize("theme", THEMES)
def test_a_character_means_the_same_on_the_page_and_in_pictures(theme: str) -> None:
    for character, (ground, piece) in THEMES[theme].items():
        board = {"kind": "grid", "theme": theme, "rows": [character]}
        parsed = evaluate("board/board.js", "parseGrid(data)", board)
        pieces = ["box"] * len(parsed["boxes"]) + ["player"] * len(parsed["players"])
        assert (parsed["ground"], pieces) == ([[ground]], [piece] if piece else []), character


def test_pictures_have_the_colours_of_the_light_theme() -> None:
    styles = dict(re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}),", STYLES.read_text(encoding="utf-8")))
    assert {name: styles[name.replace("_", "-")] for name in LIGHT} == LIGHT
    assert styles["ink"] == INK
