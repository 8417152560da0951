"""Grids with their own legend, without a browser: ground, pieces and text alternative."""

from __future__ import annotations

from typing import Any

from envs.base import GridBoard, Symbol
from tests.webapp.javascript import evaluate


def board(theme: str = "meadow", legend: bool = True) -> dict[str, Any]:
    signs = {
        "#": Symbol(name="hedge", tone="wall"),
        "w": Symbol(name="wolf", tone="danger", glyph="W"),
        "s": Symbol(name="sheep", tone="piece"),
        "m": Symbol(name="shepherd", tone="player"),
        "f": Symbol(name="flowers", glyph="*"),
    }
    return GridBoard(theme=theme, rows=["#w#", "sms", ".f,"], legend=signs if legend else None).model_dump(
        exclude_none=True
    )


def test_tones_separate_ground_from_pieces() -> None:
    found = evaluate("board/board.js", "parseGrid(data)", board())
    assert found["ground"] == [["wall", "w", "wall"], ["floor", "floor", "floor"], ["floor", "f", "floor"]]
    assert [piece["cell"] for piece in found["signs"]["s"]] == [{"x": 0, "y": 1}, {"x": 2, "y": 1}]
    assert [piece["cell"] for piece in found["players"]] == [{"x": 1, "y": 1}]
    assert found["boxes"] == []


def test_the_text_alternative_uses_the_names_of_the_legend() -> None:
    assert evaluate("board/board.js", "describeBoard(data)", board()) == (
        "Board, 3 rows by 3 columns. wolf at row 1, column 2. sheep at row 2, column 1. sheep at row 2, column 3. "
        "shepherd at row 2, column 2. flowers at row 3, column 2."
    )


def test_a_known_theme_ignores_the_legend() -> None:
    found = evaluate("board/board.js", "parseGrid(data)", board("sokoban"))
    assert found["signs"] == {}
    assert found["players"] == []
