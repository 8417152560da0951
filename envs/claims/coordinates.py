"""Reads coordinates in thoughts, and infers how their writer counts.

Rows and columns count from 1 with the outer walls, as on the boards. A thought may count otherwise: it says so, it uses
a zero, or several of its positions are true only under another convention. Where conventions are equally likely, the
reader is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from envs.claims.claim_rules import CARDINALS, Cell, compiled, read_number

WORDS = {
    "index": rf"\d{{1,2}}|{'|'.join(CARDINALS)}",
    "eq": r"\s*#?\s*[=:]?\s*",
    "and": r"\s*(,|and|/)?\s*(in |the )*",
    "place": r"([(\[]\s*(row|r){eq}\d{1,2}\s*[,;]?\s*(column|col|c)\b\.?{eq}\d{1,2}\s*[)\]]"
    r"|(row|r){eq}{index}{and}(column|col|c)\b\.?{eq}{index}|(column|col){eq}{index}{and}row{eq}{index}"
    r"|{ordinal} row{and}{ordinal} column|[(\[]\s*\d{1,2}\s*,\s*\d{1,2}\s*[)\]]"
    r"|(?<![\d.,])\d{1,2}\s*,\s*\d{1,2}(?!\.\d|,\d))(?!\d)",
}
"""Vocabulary of patterns.

`place`: a position such as "3,4", "(3, 4)", "row 3, column 4", "the third row, second column".
"""

_NUMBERS = compiled(r"\b({ordinal}|{index})\b|\d+", WORDS)
_LABELLED = compiled(r"\b(row|r)(?=\b|\d|[\s=:#])")
_COLUMN_FIRST = compiled(r"\s*[(\[]?\s*col")
_ORDINAL = compiled("{ordinal}")
_ZERO = compiled(r"\b(0|zero)[- ]?(indexed|based|indexing)\b|\b(from|at|with) (0|zero)\b|\brow 0\b|\bcolumn 0\b")
_ONE = compiled(r"\b(1|one)[- ]?(indexed|based|indexing)\b|\bcount(ing|ed)? from (1|one)\b")
_ACROSS_FIRST = compiled(r"\(\s*(x\s*,\s*y|col(umn)?s?\s*,\s*rows?|c\s*,\s*r)\s*\)")
_DOWN_FIRST = compiled(r"\(\s*(rows?\s*,\s*col(umn)?s?|r\s*,\s*c|y\s*,\s*x)\s*\)")


class Convention(NamedTuple):
    """A way of counting positions: whether outer walls count, whether the column comes first, and the first index."""

    walls: bool = True
    column_first: bool = False
    base: int = 1


BOARD = Convention()
"""Convention of the boards: row, column, from 1, with walls."""


class Position(NamedTuple):
    """Two numbers. `labelled` names row and column, which fixes their order; `ordinal` also fixes the base."""

    first: int
    second: int
    labelled: bool = False
    ordinal: bool = False

    def cell(self, convention: Convention) -> Cell:
        """Return row and column from 0."""
        base = (1 if self.ordinal else convention.base) - (not convention.walls)
        first, second = self.first - base, self.second - base
        return (second, first) if convention.column_first and not self.labelled else (first, second)


def read_position(text: str) -> Position:
    """Return the position in a text that `{place}` matches."""
    ordinal = _ORDINAL.search(text) is not None
    first, second, *_ = (read_number(match[0]) for match in _NUMBERS.finditer(text))
    if _COLUMN_FIRST.match(text):
        first, second = second, first
    return Position(first, second, ordinal or _LABELLED.search(text) is not None, ordinal)


def judge(
    thought: str, positions: Sequence[Position], holds: Callable[[int, Cell], bool], *, walled: bool = False
) -> list[Cell | None]:
    """Return the cell that each position means; None if its convention is uncertain.

    Positions are read in the first convention that the thought's words and zeros permit, which is the board's unless
    they exclude it. Another convention is used if it makes at least two different positions true, and all of them, and
    no other convention does so with other cells. A position that is true only under other conventions is uncertain,
    unless the first convention makes two different positions true, and more than any other.

    Args:
        thought: the whole text.
        positions: positions in the thought, in order.
        holds: returns True if statement number i is true of a cell.
        walled: True if the board has outer walls, which may be left out of the count.
    """
    zero, from_one = _ZERO.search(thought), _ONE.search(thought)
    from_zero = zero or any(0 in position[:2] for position in positions if not position.ordinal)
    bases = [1] if from_one else [0] if from_zero else [1, 0]
    orders = [True] if _ACROSS_FIRST.search(thought) else [False] if _DOWN_FIRST.search(thought) else [False, True]
    open_ = [Convention(*made) for made in product([True, False] if walled and not from_one else [True], orders, bases)]
    first = open_[0]
    doubted = open_ if zero else list(dict.fromkeys([*open_, BOARD]))  # a zero may be a mistake
    cells = {convention: tuple(position.cell(convention) for position in positions) for convention in doubted}
    true = {
        made: {number for number, cell in enumerate(cells_read) if holds(number, cell)}
        for made, cells_read in cells.items()
    }
    if len(true[first]) < len(positions):
        meanings = {cells[convention] for convention in open_ if len(true[convention]) == len(positions)}
        if len(meanings) == 1 and len(set(positions)) > 1:
            return list(meanings.pop())
    certain = len({positions[number] for number in true[first]}) > 1
    rivals = [cells_read for cells_read in true.values() if not certain or len(cells_read) >= len(true[first])]
    return [
        None if number not in true[first] and any(number in cells_read for cells_read in rivals) else cell
        for number, cell in enumerate(cells[first])
    ]
