"""Coordinates in thoughts, and how their writer counts.

Rows and columns count from 1, as on the boards. A thought may count otherwise: it says so, it uses a zero, or several
of its positions are true only under another convention. Where conventions are equally likely, the reader is silent.
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
    """How positions are counted: the first index, and whether the column stands first."""

    base: int = 1
    column_first: bool = False


BOARD = Convention()
"""As the boards count: row, column, from 1."""


@dataclass(frozen=True)
class Position:
    """Two numbers. `labelled`: row and column are named, which fixes their order; `ordinal`: the base too."""

    first: int
    second: int
    labelled: bool = False
    ordinal: bool = False

    def cell(self, convention: Convention) -> Cell:
        """Row and column from 0."""
        base = 1 if self.ordinal else convention.base
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


def stated_conventions(thought: str, positions: Sequence[Position]) -> list[Convention]:
    """Conventions that the thought's own words and zeros leave open; the board's comes first where it is among them."""
    zero = any(0 in (position.first, position.second) for position in positions if not position.ordinal)
    bases = [1] if _ONE.search(thought) else [0] if zero or _ZERO.search(thought) else [1, 0]
    orders = [True] if _ACROSS_FIRST.search(thought) else [False] if _DOWN_FIRST.search(thought) else [False, True]
    return [Convention(base, order) for order in orders for base in bases]


def judge(thought: str, positions: Sequence[Position], holds: Callable[[int, Cell], bool]) -> list[Cell | None]:
    """The cell that each position means; None where its convention is uncertain.

    The convention that makes most positions true wins. The board's own wins every tie; another one wins only if it
    makes at least two different positions true, and all of them, and no other one does so with other cells. Otherwise
    only positions that are false under every likely convention have a meaning, the board's.

    Args:
        thought: the whole text.
        positions: of the thought, in order.
        holds: whether statement number i is true of a cell.
    """
    open_ = stated_conventions(thought, positions)
    scores = [
        sum(holds(number, position.cell(convention)) for number, position in enumerate(positions))
        for convention in open_
    ]
    most = max(scores, default=0)
    first = open_[0]
    if not positions or len(open_) == 1 or scores[0] == most:
        return [position.cell(first) for position in positions]
    best = [convention for convention, score in zip(open_, scores, strict=True) if score == most]
    meanings = {tuple(position.cell(convention) for position in positions) for convention in best}
    if len(meanings) == 1 and most == len(positions) and len(set(positions)) > 1:
        return list(meanings.pop())
    return [
        cell
        if holds(number, cell := position.cell(first))
        or not any(holds(number, position.cell(convention)) for convention in best)
        else None
        for number, position in enumerate(positions)
    ]
