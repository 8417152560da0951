"""Coordinates in thoughts, and how their writer counts.

Rows and columns count from 1 with the outer walls, as on the boards. A thought may count otherwise: it says so, it uses
a zero, or several of its positions are true only under another convention. Where conventions are equally likely, the
reader is silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.claims.number_words import CARDINALS, ORDINAL, count_of, ordinal_of

Cell = tuple[int, int]

_INDEX = rf"(?:\d{{1,2}}|{'|'.join(CARDINALS)})"
_IS = r"\s*#?\s*[=:]?\s*"
PLACE = (
    rf"(?:[(\[]\s*(?:row|r){_IS}\d{{1,2}}\s*[,;]?\s*(?:column|col|c)\b\.?{_IS}\d{{1,2}}\s*[)\]]"
    rf"|(?:row|r){_IS}{_INDEX}\s*(?:,|and|/)?\s*(?:in\s+|the\s+)*(?:column|col|c)\b\.?{_IS}{_INDEX}"
    rf"|(?:column|col){_IS}{_INDEX}\s*(?:,|and|/)?\s*(?:in\s+|the\s+)*row{_IS}{_INDEX}"
    rf"|{ORDINAL}\s+row\s*(?:,|and)?\s*(?:in\s+|the\s+)*{ORDINAL}\s+column"
    rf"|[(\[]\s*\d{{1,2}}\s*,\s*\d{{1,2}}\s*[)\]]"
    rf"|(?<![\d.,])\d{{1,2}}\s*,\s*\d{{1,2}}(?!\.\d|,\d))(?!\d)"
)
"""Pattern of a position: "3,4", "(3, 4)", "row 3, column 4", "the third row, second column"."""

_NUMBERS = re.compile(rf"\b(?:{ORDINAL}|{_INDEX})\b|\d+", re.IGNORECASE)
_LABELLED = re.compile(r"\b(?:row|r)(?=\b|\d|[\s=:#])", re.IGNORECASE)
_COLUMN_FIRST = re.compile(r"\s*[(\[]?\s*col", re.IGNORECASE)
_ORDINALS = re.compile(ORDINAL, re.IGNORECASE)
_ZERO = re.compile(
    r"\b(?:0|zero)[- ]?(?:indexed|based|indexing)\b|\b(?:from|at|with)\s+(?:0|zero)\b|\brow 0\b|\bcolumn 0\b",
    re.IGNORECASE,
)
_ONE = re.compile(r"\b(?:1|one)[- ]?(?:indexed|based|indexing)\b|\bcount(?:ing|ed)? from (?:1|one)\b", re.IGNORECASE)
_ACROSS_FIRST = re.compile(r"\(\s*(?:x\s*,\s*y|col(?:umn)?s?\s*,\s*rows?|c\s*,\s*r)\s*\)", re.IGNORECASE)
_DOWN_FIRST = re.compile(r"\(\s*(?:rows?\s*,\s*col(?:umn)?s?|r\s*,\s*c|y\s*,\s*x)\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class Convention:
    """How positions are counted: the first index, whether the column is first, and whether outer walls are counted."""

    base: int = 1
    column_first: bool = False
    walls: bool = True


BOARD = Convention()
"""As the boards count: row, column, from 1, with walls."""


@dataclass(frozen=True)
class Position:
    """Two numbers. `labelled`: row and column are named, which fixes their order; `ordinal`: the base too."""

    first: int
    second: int
    labelled: bool = False
    ordinal: bool = False

    def cell(self, convention: Convention) -> Cell:
        """Row and column from 0."""
        base = (1 if self.ordinal else convention.base) - (not convention.walls)
        first, second = self.first - base, self.second - base
        return (second, first) if convention.column_first and not self.labelled else (first, second)


def position_of(text: str) -> Position:
    """The position of a text that PLACE matches."""
    ordinal = _ORDINALS.search(text) is not None
    numbers = [ordinal_of(word) if _ORDINALS.fullmatch(word) else count_of(word) for word in _NUMBERS.findall(text)]
    first, second = numbers[0], numbers[1]
    if _COLUMN_FIRST.match(text):
        first, second = second, first
    return Position(first, second, labelled=ordinal or _LABELLED.search(text) is not None, ordinal=ordinal)


def stated_conventions(thought: str, positions: Sequence[Position], *, walled: bool = False) -> list[Convention]:
    """Conventions that the thought's own words and zeros leave open; the board's comes first where it is among them.

    `walled`: the board has outer walls, which may be left out of the count.
    """
    zero = any(0 in (position.first, position.second) for position in positions if not position.ordinal)
    bases = [1] if _ONE.search(thought) else [0] if zero or _ZERO.search(thought) else [1, 0]
    orders = [True] if _ACROSS_FIRST.search(thought) else [False] if _DOWN_FIRST.search(thought) else [False, True]
    counted = [True, False] if walled and not _ONE.search(thought) else [True]
    return [Convention(base, order, walls) for walls in counted for order in orders for base in bases]


def judge(
    thought: str, positions: Sequence[Position], holds: Callable[[int, Cell], bool], *, walled: bool = False
) -> list[Cell | None]:
    """The cell that each position means; None where its convention is uncertain.

    Positions mean what they do under the first convention left open, which is the board's unless the thought says
    otherwise. Another one is taken if it makes at least two different positions true, and all of them, and no other one
    does so with other cells. A position that is true only under other conventions is uncertain, unless the first one
    makes two different positions true, and more than any of those.

    Args:
        thought: the whole text.
        positions: of the thought, in order.
        holds: whether statement number i is true of a cell.
        walled: whether the board has outer walls.
    """
    open_ = stated_conventions(thought, positions, walled=walled)
    first = open_[0]
    doubted = open_ if _ZERO.search(thought) else list(dict.fromkeys([*open_, BOARD]))  # a zero may be a mistake
    true = {
        convention: {number for number, position in enumerate(positions) if holds(number, position.cell(convention))}
        for convention in doubted
    }
    if len(true[first]) < len(positions):
        complete = [convention for convention in open_ if len(true[convention]) == len(positions)]
        meanings = {tuple(position.cell(convention) for position in positions) for convention in complete}
        if len(meanings) == 1 and len(set(positions)) > 1:
            return list(meanings.pop())
    certain = len({positions[number] for number in true[first]}) > 1
    rivals = [found for found in true.values() if not certain or len(found) >= len(true[first])]
    return [
        None if number not in true[first] and any(number in found for found in rivals) else position.cell(first)
        for number, position in enumerate(positions)
    ]
