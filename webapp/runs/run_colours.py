"""The colour of a run, the same on its pages, in curves, comparisons and reports.

Colours are numbers from 1 to COLOURS; static/css/base.css defines them as --run-N for both themes.
"""

from __future__ import annotations

from collections.abc import Sequence

COLOURS = 10


def get_colour(key: int) -> int:
    """Return the colour of the run with this primary key: runs that were created one after another differ."""
    return 1 + key % COLOURS


def assign_colours(keys: Sequence[int]) -> list[int]:
    """Return a colour for each of the runs drawn together: the run's colour, or the next one that is free."""
    taken: list[int] = []
    for key in keys:
        colour = get_colour(key)
        free = [number for number in range(1, COLOURS + 1) if number not in taken]
        later = [number for number in free if number >= colour]
        taken.append((later or free or [colour])[0])
    return taken
