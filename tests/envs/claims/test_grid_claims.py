"""Claims about Sokoban and FrozenLake: rendered from a state they are true, changed ones are false."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envs import registry
from envs.base import GridBoard
from envs.claims.coordinates import Convention, Position, judge, read_position

ROOM = GridBoard(theme="sokoban", rows=["######", "#  . #", "#  $ #", "#    #", "# @  #", "######"])
LAKE = GridBoard(theme="frozen_lake", rows=["   @", " O  ", "G   ", "    "])
CELLS = [(row, column) for row in range(1, 7) for column in range(1, 7)]


def read(thought, board=ROOM, environment="Sokoban"):
    return [
        (thought[claim.start : claim.end], claim.true) for claim in registry.read_claims(environment, thought, board)
    ]


def room(player, box, target):
    """An 8×8 room, rows and columns from 0."""
    signs = {target: ".", box: "$", player: "@"}
    rows = [
        "".join("#" if row in (0, 7) or column in (0, 7) else signs.get((row, column), " ") for column in range(8))
        for row in range(8)
    ]
    return GridBoard(theme="sokoban", rows=rows)


def place(cell):
    return f"({cell[0] + 1}, {cell[1] + 1})"


three = st.lists(st.sampled_from(CELLS), min_size=3, max_size=3, unique=True)


@given(three)
def test_rendered_positions_are_true(cells):
    player, box, target = cells
    row, column = target[0] + 1, target[1] + 1
    thought = f"I am at {place(player)}. The box is at {place(box)} and the target is in row {row}, column {column}."
    claims = registry.read_claims("Sokoban", thought, room(player, box, target))
    assert [claim.true for claim in claims] == [True] * 3
    assert [claim.cells for claim in claims] == [[player], [box], [target]]


@given(three, st.sampled_from(CELLS))
def test_a_moved_box_is_false_and_the_true_place_is_given(cells, elsewhere):
    player, box, target = cells
    others = {(box[1], box[0]), (box[0] + 1, box[1] + 1), (box[1] + 1, box[0] + 1), (box[0] - 1, box[1] - 1)}
    assume(elsewhere != box and elsewhere not in others)
    thought = f"I am at {place(player)}. Box {place(elsewhere)}. Target {place(target)}."
    claims = registry.read_claims("Sokoban", thought, room(player, box, target))
    assert [claim.true for claim in claims] == [True, False, True]
    assert (claims[1].cells, claims[1].actual_cells) == ([elsewhere], [box])
    assert claims[1].actual == f"the box is at row {box[0] + 1}, column {box[1] + 1}"


@given(three, st.integers(-2, 2), st.integers(-2, 2))
def test_an_offset_after_a_position_leads_from_the_box_to_the_target(cells, more_down, more_right):
    player, box, target = cells
    down, right = target[0] - box[0] + more_down, target[1] - box[1] + more_right
    assume((box[0] + down, box[1] + right) != (box[0] + target[0] - player[0], box[1] + target[1] - player[1]))
    steps = [("Down", down), ("Up", -down), ("Right", right), ("Left", -right)]
    offset = ", ".join(f"{direction} {number}" for direction, number in steps if number > 0) or "here"
    thought = f"Box {place(box)}. Target {place(target)}: {offset}. Down to {place(player)}."
    board = room(player, box, target)
    assert read(thought, board)[2:] == [(offset, not more_down and not more_right)]
    believed = (box[0] + down, box[1] + right)
    for claim in registry.read_claims("Sokoban", thought, board)[2:]:
        inside = all(0 <= line < 8 for line in believed)
        assert claim.placed == (None if claim.true or not inside else "target_position")
        if claim.placed:
            assert (claim.cells, claim.actual_cells) == ([believed], [target])


@pytest.mark.parametrize(
    ("offset", "verdict"),
    [("Down 2, Left 3", [True]), ("Down 2", [False]), ("Down 1, Down 1", []), ("Down 2 or so", [])],
)
def test_an_offset_of_the_goal_leads_from_the_player(offset, verdict):
    claims = read(f"I am at 1,4. Goal 3,1: {offset}. Hole 2,2.", LAKE, "FrozenLake")
    assert [true for text, true in claims if "Down" in text] == verdict


DIRECTIONS = {(0, -1): "to the left of", (0, 1): "to the right of", (-1, 0): "above", (1, 0): "below"}


@given(st.sampled_from(CELLS), st.sampled_from(list(DIRECTIONS)), st.integers(1, 5), st.sampled_from(["I", "box"]))
def test_relative_positions_are_true_and_turned_round_ones_false(origin, step, number, reference):
    cell = origin[0] + step[0] * number, origin[1] + step[1] * number
    assume(cell in CELLS)
    spare = next(free for free in CELLS if free not in (origin, cell))
    cells = (origin, cell, spare) if reference == "I" else (spare, origin, cell)
    subject, base = ("The box", "me") if reference == "I" else ("The target", "the box")
    unit = "cell" if number == 1 else "cells"
    board = room(*cells)
    true = f"{subject} is {number} {unit} {DIRECTIONS[step]} {base}."
    false = f"{subject} is {number} {unit} {DIRECTIONS[-step[0], -step[1]]} {base}."
    wrong = f"{subject} is {number + 1} cells {DIRECTIONS[step]} {base}."
    assert [verdict for _, verdict in read(true, board)] == [True]
    assert [verdict for _, verdict in read(false, board)] == [False]
    assert [verdict for _, verdict in read(wrong, board)] == [False]


@pytest.mark.parametrize(
    ("thought", "believed"),
    [
        ("The target is 2 cells to the left of the box.", [(2, 1)]),
        ("The target is 3 cells above and 1 cell to the left of the box.", None),
        ("The target is 2 rows below the box.", None),
        ("The target is to the left of the box.", None),
    ],
    ids=["in line", "beyond the board", "in any column", "no number"],
)
def test_a_false_distance_puts_a_thing_into_a_cell_if_it_names_one(thought, believed):
    (claim,) = registry.read_claims("Sokoban", thought, ROOM)
    assert not claim.true
    assert (claim.cells if claim.placed else None) == believed


WORDS = (
    "the box target I am is at row column 3,4 (2,4) left right of to above below my cell hole two 5 , . \n and ＩＮ ß "
    "İ 😀 ( ) [ first corner wall same there 6x6 from away next Phoenix pulled 3 + 4 = 7 price $5"
)
TEXT = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(re.split(" ", WORDS)), max_size=40).map(" ".join))


@given(TEXT, st.sampled_from([("Sokoban", ROOM), ("FrozenLake", LAKE)]))
def test_any_text_is_read_without_an_error_and_spans_lie_within_it(thought, place):
    environment, board = place
    end = 0
    for claim in registry.read_claims(environment, thought, board):
        assert end <= claim.start < claim.end <= len(thought)
        assert claim.cells is None or all(0 <= row < len(board.rows) for row, _ in claim.cells)
        assert claim.true == (claim.actual is None)
        end = claim.end


def test_playing_ahead_makes_later_positions_of_movable_things_silent():
    thought = "I am at (5,3). If I go right, I stand at (5,4). Then I am at (5,4). The target is at (2,4)."
    assert read(thought) == [("I am at (5,3)", True), ("The target is at (2,4)", True)]


def test_what_differs_by_convention_alone_is_silent():
    assert read("The box is at (2, 3).") == []
    assert read("The box is at (2, 3), counted from 0.") == [("The box is at (2, 3)", True)]
    assert read("The box is at (2, 3), counting from 1.") == [("The box is at (2, 3)", False)]


def test_a_position_that_is_true_in_any_other_convention_is_silent_until_two_positions_show_the_boards():
    assert read("The target is at (2, 1).") == [("The target is at (2, 1)", False)]
    assert read("The target is at (2, 0).") == []  # column and row from 0, without walls
    assert read("The player is in the second column.") == []  # without walls
    thought = "I am at (5, 3). The box is at (3, 4). The target is at (1, 3)."
    assert [verdict for _, verdict in read(thought)] == [True, True, False]


def test_at_the_goal_may_mean_beside_it():
    beside = GridBoard(theme="frozen_lake", rows=["  O ", "    ", " @G ", "    "])
    assert registry.read_claims("FrozenLake", "I am at the goal.", beside) == []
    apart = GridBoard(theme="frozen_lake", rows=["  O ", "   @", "  G ", "    "])
    assert [claim.true for claim in registry.read_claims("FrozenLake", "I am at the goal.", apart)] == [False]
    assert [claim.true for claim in registry.read_claims("FrozenLake", "I am on the goal.", beside)] == [False]


def test_a_convention_that_explains_every_position_is_taken():
    thought = "Player at (4, 2), box at (2, 3), target at (1, 3)."
    assert [verdict for _, verdict in read(thought)] == [True, True, True]


def test_a_board_without_a_theme_is_not_compared():
    board = GridBoard(theme="maze", rows=["@."])
    assert registry.read_claims("Sokoban", "I am at 1,1.", board) is None


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("(3, 4)", Position(3, 4)),
        ("3,4", Position(3, 4)),
        ("row 3, column 4", Position(3, 4, labelled=True)),
        ("column 4, row 3", Position(3, 4, labelled=True)),
        ("(row=3, col=4)", Position(3, 4, labelled=True)),
        ("third row, 4th column", Position(3, 4, labelled=True, ordinal=True)),
    ],
)
def test_positions_are_read_in_every_form(text, position):
    assert read_position(text) == position


def test_a_position_has_a_cell_under_each_convention():
    assert Position(3, 4).cell(Convention()) == (2, 3)
    assert Position(3, 4).cell(Convention(base=0, column_first=True)) == (4, 3)
    assert Position(3, 4, labelled=True).cell(Convention(column_first=True)) == (2, 3)
    assert judge("no positions", [], lambda number, cell: True) == []
