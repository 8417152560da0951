"""Reasons why a position is lost: each is true, and the simple ones are found."""

import pytest
from hypothesis import given

from envs.sokoban.deadlocks import Deadlocks
from envs.sokoban.grid import Grid
from envs.sokoban.levels import parse
from tests.envs.sokoban.drawn import fewest, small_levels


def deadlocks_of(level):
    return Deadlocks(level.width, level.floor, level.targets)


@given(small_levels())
def test_a_position_with_a_reason_is_lost(level):
    if deadlocks_of(level).reason(tuple(sorted(level.boxes))) is not None:
        assert fewest(level) is None


@given(small_levels())
def test_dead_squares_are_the_cells_excluded_by_searches(level):
    room = Grid(level.width, level.floor, level.targets)
    assert deadlocks_of(level).dead == level.floor - {room.cells[number] for number in room.live}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#######\n#$@   #\n#     #\n#   . #\n#######", "the box is in a corner"),
        ("#######\n#  $  #\n# @   #\n#   . #\n#######", "the box is against a wall without a target"),
        ("########\n# @$$ .#\n#  .   #\n#      #\n########", "two boxes block each other against a wall"),
        ("#######\n# #  .#\n#  #  #\n# $# ##\n# @   #\n#######", "the box can no longer be pushed to the target"),
        ("#######\n#  @  #\n#  #  #\n##$$ *#\n#. # .#\n#######", "a box can no longer be pushed to any target"),
        ("#######\n#  @# #\n# $$  #\n#. # .#\n###  *#\n#######", "boxes block each other for good"),
        ("#######\n##    #\n#  * ##\n# #$ ##\n#.#@# #\n#######", "too many boxes can only be pushed to the same"),
        ("########\n#@     #\n#  $$  #\n#  $$  #\n#....  #\n#      #\n########", "boxes block each other for good"),
        ("#######\n#@    #\n# $$  #\n#  .  #\n##   .#\n#######", None),
    ],
)
def test_deadlock_reasons_are_described(text, reason):
    level = parse(text)
    found = deadlocks_of(level).reason(tuple(sorted(level.boxes)))
    assert found is None if reason is None else found.startswith(reason)


def test_boxes_blocking_each_other_on_targets_are_no_deadlock():
    level = parse("########\n#@     #\n#  **  #\n#  **  #\n# $  . #\n#      #\n########")
    assert deadlocks_of(level).reason(tuple(sorted(level.boxes))) is None
    assert deadlocks_of(level).frozen(level.boxes) < level.boxes


def test_one_box_off_its_target_in_a_block_is_a_deadlock():
    level = parse("########\n#@     #\n#  **  #\n#  *$  #\n# $  ..#\n#      #\n########")
    assert deadlocks_of(level).reason(tuple(sorted(level.boxes))) == "boxes block each other for good"


def test_a_row_of_boxes_that_one_end_can_leave_is_not_frozen():
    level = parse("########\n#@     #\n# $$   #\n#      #\n#   .. #\n########")
    assert deadlocks_of(level).frozen(level.boxes) == frozenset()
