"""Grids from the symbols of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

from envs.base import MAX_GLYPH, GridBoard, Symbol, Tone

_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:;<=>?!%&*+-/^|~"
EMPTY = Symbol(name="empty", tone="tile")
OUTSIDE = Symbol(name="outside", tone="wall")


def labelled(glyph: object, name: str = "", tone: Tone = "tile") -> Symbol:
    """Return a cell with a few characters on it, which are also its name by default."""
    text = str(glyph)
    return Symbol(name=name or text, tone=tone, glyph=text[:MAX_GLYPH])


def drawn(theme: str, cells: Sequence[Sequence[Symbol]]) -> GridBoard:
    """Return a board of these cells, with a character for each different symbol.

    Raises:
        ValueError: there are no cells, rows differ in length, or there are more symbols than characters.
    """
    if not cells or not cells[0] or len({len(row) for row in cells}) != 1:
        raise ValueError("a grid needs rows of one length")
    characters: dict[tuple[str, str, str | None], str] = {}
    legend: dict[str, Symbol] = {}
    rows = []
    for row in cells:
        line = ""
        for symbol in row:
            key = (symbol.name, symbol.tone, symbol.glyph)
            if key not in characters:
                if len(characters) == len(_CHARACTERS):
                    raise ValueError(f"a grid can have {len(_CHARACTERS)} different symbols")
                characters[key] = _CHARACTERS[len(characters)]
                legend[characters[key]] = symbol
            line += characters[key]
        rows.append(line)
    return GridBoard(theme=theme, rows=rows, legend=legend)


def cars(names: Iterable[str], escaping: str) -> dict[str, Symbol]:
    """Return the vehicles of a Rush Hour by letter; `escaping`, which has to leave, is red."""
    tones: cycle[Tone] = cycle(("blue", "green", "yellow", "orange", "white"))
    others = {name: labelled(name, f"car {name}", next(tones)) for name in sorted(set(names) - {escaping})}
    return {escaping: labelled(escaping, f"car {escaping}, which has to leave", "red"), **others}


def towers(pegs: Sequence[Sequence[int]], height: int) -> GridBoard:
    """Draw disks on pegs, one column per peg; a peg's list begins with its lowest disk."""
    rows = [
        [labelled(peg[level], f"disk {peg[level]}", "piece") if level < len(peg) else EMPTY for peg in pegs]
        for level in reversed(range(height))
    ]
    return drawn("tower_of_hanoi", rows)
