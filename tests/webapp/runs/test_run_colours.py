"""Colours of runs, alone and beside each other."""

from __future__ import annotations

from webapp.runs.run_colours import COLOURS, colour_of, colours_of


def test_runs_keep_their_colour_in_a_comparison_unless_an_earlier_one_has_it() -> None:
    assert colours_of([7, 3]) == [colour_of(7), colour_of(3)]
    assert colours_of([3, 3 + COLOURS, 4]) == [colour_of(3), colour_of(4), colour_of(5)]
    assert colours_of([COLOURS - 1, 2 * COLOURS - 1]) == [COLOURS, 1], "after the last one come the first ones"
    assert sorted(colours_of([5] * COLOURS)) == list(range(1, COLOURS + 1))
