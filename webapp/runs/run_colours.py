"""The colour of a run, the same wherever it is named or drawn: on its own pages, in curves, comparisons and reports.

Colours are numbers from 1 to COLOURS; static/css/base.css defines them as --run-N for both themes.
"""

from __future__ import annotations

from collections.abc import Sequence

COLOURS = 10


def colour_of(key: int) -> int:
    """The colour of the run with this primary key: runs that were created one after another differ."""
    return 1 + key % COLOURS


def colours_of(keys: Sequence[int]) -> list[int]:
    """The colours of runs that are drawn together: its own, or the next one that no earlier run has."""
    taken: list[int] = []
    for key in keys:
        own = colour_of(key)
        free = [each for each in range(1, COLOURS + 1) if each not in taken]
        later = [each for each in free if each >= own]
        taken.append((later or free or [own])[0])
    return taken
