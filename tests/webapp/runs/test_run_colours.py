"""Colours of runs, alone and beside each other."""

from __future__ import annotations

from webapp.runs.run_colours import COLOURS, assign_colours, get_colour


def test_runs_keep_their_colour_in_a_comparison_unless_an_earlier_one_has_it() -> None:
    assert assign_colours([7, 3]) == [get_colour(7), get_colour(3)]
    assert assign_colours([3, 3 + COLOURS, 4]) == [get_colour(3), get_colour(4), get_colour(5)]
    assert assign_colours([COLOURS - 1, 2 * COLOURS - 1]) == [COLOURS, 1], "after the last one come the first ones"
    assert sorted(assign_colours([5] * COLOURS)) == list(range(1, COLOURS + 1))
