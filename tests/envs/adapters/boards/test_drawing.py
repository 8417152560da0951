"""Boards from the symbols of their cells."""

from __future__ import annotations

import pytest

from envs.adapters.boards.drawing import EMPTY, drawn, labelled, towers
from envs.base import Symbol


def test_equal_symbols_share_a_character_and_others_differ() -> None:
    board = drawn("any", [[labelled(7), EMPTY, labelled(7)], [labelled(7, tone="good"), labelled(8), EMPTY]])
    assert board.legend is not None
    assert [[board.legend[sign].name for sign in row] for row in board.rows] == [
        ["7", "empty", "7"],
        ["7", "8", "empty"],
    ]
    assert board.rows[0][0] == board.rows[0][2] != board.rows[1][0]
    assert [symbol.tone for symbol in board.legend.values()] == ["tile", "tile", "good", "tile"]


def test_long_labels_are_cut_on_the_cell_and_whole_in_the_name() -> None:
    assert (labelled("123456").glyph, labelled("123456").name) == ("1234", "123456")


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ([], "rows of one length"),
        ([[]], "rows of one length"),
        ([[EMPTY], [EMPTY, EMPTY]], "rows of one length"),
        ([[labelled(number) for number in range(100)]], "different symbols"),
    ],
)
def test_what_is_no_grid_is_refused(cells: list[list[Symbol]], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        drawn("any", cells)


def test_towers_stand_on_the_ground() -> None:
    board = towers([[3, 1], [], [2]], 3)
    assert board.legend is not None
    names = [[board.legend[sign].name for sign in row] for row in board.rows]
    assert names == [["empty"] * 3, ["disk 1", "empty", "empty"], ["disk 3", "empty", "disk 2"]]
