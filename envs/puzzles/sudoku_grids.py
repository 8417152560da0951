"""Sudoku grids: solver, generator of puzzles with one solution, and deductions without trial and error.

A grid is a tuple of digits, row by row, 0 for an empty cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from envs.support.rng import SeededRng

Grid = tuple[int, ...]
Reason = Literal["only digit", "only place in the row", "only place in the column", "only place in the box", "trial"]
MAX_GRIDS = 200
"""Complete grids to dig holes into before the number of blanks is given up as too large."""


class GridError(ValueError):
    """Text that is not a puzzle with one solution. The message says why."""


@dataclass(frozen=True)
class Shape:
    """Side of a grid and of its boxes, in cells; the digits are 1 to `size`."""

    size: int
    box_height: int
    box_width: int

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return self.size * self.size

    @cached_property
    def units(self) -> tuple[tuple[int, int, int], ...]:
        """Return row, column and box of each cell, each counted from 0."""
        across = self.size // self.box_width
        places = (divmod(cell, self.size) for cell in range(self.cells))
        return tuple((row, col, row // self.box_height * across + col // self.box_width) for row, col in places)

    @cached_property
    def members(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Return the cells of each row, of each column and of each box."""
        return tuple(
            tuple(
                tuple(cell for cell in range(self.cells) if self.units[cell][kind] == number)
                for number in range(self.size)
            )
            for kind in range(3)
        )


SHAPES = {4: Shape(4, 2, 2), 6: Shape(6, 2, 3), 9: Shape(9, 3, 3)}
MAX_BLANKS = {4: 10, 6: 22, 9: 54}
"""Most blanks by size for which a puzzle with one solution is found quickly: denser ones are rare."""
TYPICAL_BLANKS = {4: 6, 6: 14, 9: 36}


@dataclass(frozen=True)
class Deduction:
    """A digit that a cell must have, and the reason."""

    cell: int
    digit: int
    reason: Reason


class Candidates:
    """Digits that rows, columns and boxes leave for the empty cells of a grid, as bit masks (bit d for digit d).

    Args:
        grid: its digits may break the rules; affected cells then have no candidates.
    """

    def __init__(self, shape: Shape, grid: Sequence[int]) -> None:
        self.shape = shape
        self.values = list(grid)
        self.used = [[0] * shape.size for _ in range(3)]
        self.all = (1 << (shape.size + 1)) - 2
        for cell, digit in enumerate(grid):
            if digit:
                self._mark(cell, 1 << digit)

    def of(self, cell: int) -> int:
        """Return the mask of the digits that the cell may have, whether or not it is empty."""
        row, column, box = self.shape.units[cell]
        rows, columns, boxes = self.used
        return self.all & ~(rows[row] | columns[column] | boxes[box])

    def put(self, cell: int, digit: int) -> None:
        """Write a digit into an empty cell."""
        self.values[cell] = digit
        self._mark(cell, 1 << digit)

    def clear(self, cell: int) -> int:
        """Empty a cell whose digit breaks no rule. Returns the digit."""
        digit, self.values[cell] = self.values[cell], 0
        for used, unit in zip(self.used, self.shape.units[cell], strict=True):
            used[unit] &= ~(1 << digit)
        return digit

    def _mark(self, cell: int, bit: int) -> None:
        for used, unit in zip(self.used, self.shape.units[cell], strict=True):
            used[unit] |= bit

    def complete(self, limit: int, order: Callable[[list[int]], list[int]] = list) -> list[Grid]:
        """Return up to `limit` complete grids with these digits; `order` arranges the digits to try in a cell."""
        cell, mask, least = -1, 0, self.shape.size + 1
        for empty_cell, digit in enumerate(self.values):
            if not digit and (count := (candidate_mask := self.of(empty_cell)).bit_count()) < least:
                cell, mask, least = empty_cell, candidate_mask, count
                if count <= 1:
                    break
        if cell < 0:
            return [tuple(self.values)]
        grids: list[Grid] = []
        for digit in order(list_digits(mask)):
            self.put(cell, digit)
            grids += self.complete(limit - len(grids), order)
            self.clear(cell)
            if len(grids) == limit:
                break
        return grids


def list_digits(mask: int) -> list[int]:
    """Return the digits of a mask, in order."""
    return [digit for digit in range(1, mask.bit_length()) if mask >> digit & 1]


def breaks_a_rule(shape: Shape, grid: Sequence[int]) -> bool:
    """Return True if a row, column or box has a digit twice."""
    units = [cells for kind in shape.members for cells in kind]
    unit_digits = [[grid[cell] for cell in cells if grid[cell]] for cells in units]
    return any(len(digits) != len(set(digits)) for digits in unit_digits)


def solutions(shape: Shape, grid: Grid, limit: int = 2) -> list[Grid]:
    """Return up to `limit` solutions of a grid."""
    if breaks_a_rule(shape, grid):
        return []
    return Candidates(shape, grid).complete(limit)


def make_puzzle(rng: SeededRng, shape: Shape, blanks: int) -> tuple[Grid, Grid]:
    """Make a random puzzle with one solution, and return both.

    Cells of a random complete grid are emptied in random order, except those whose digit the others do not determine.

    Args:
        blanks: number of empty cells, up to MAX_BLANKS.
    Raises:
        ValueError: no puzzle with so many blanks was found.
    """
    for _ in range(MAX_GRIDS):
        empty = Candidates(shape, (0,) * shape.cells)
        (solution,) = empty.complete(1, lambda digits: rng.sample(digits, len(digits)))
        candidates, left = Candidates(shape, solution), blanks
        for cell in rng.sample(range(shape.cells), shape.cells):
            if left == 0:
                break
            digit = candidates.clear(cell)
            if _determined(candidates, cell, digit):
                left -= 1
            else:
                candidates.put(cell, digit)
        if left == 0:
            return tuple(candidates.values), solution
    raise ValueError(f"no puzzle with {blanks} blanks was found: choose fewer, at most {MAX_BLANKS[shape.size]}")


def _determined(candidates: Candidates, cell: int, digit: int) -> bool:
    """Return True if no other digit in the empty cell leads to a complete grid."""
    for other in list_digits(candidates.of(cell) & ~(1 << digit)):
        candidates.put(cell, other)
        grids = candidates.complete(1)
        candidates.clear(cell)
        if grids:
            return False
    return True


def parse_grid(shape: Shape, text: str) -> tuple[Grid, Grid]:
    """Return a puzzle from its text, and the solution. `.`, `_` and 0 are empty cells; signs between cells are ignored.

    Raises:
        GridError: cells are missing, a digit is too large, or there is not exactly one solution.
    """
    signs = [sign for sign in text if sign.isdigit() or sign in "._"]
    grid = tuple(0 if sign in "._" else int(sign) for sign in signs)
    if len(grid) != shape.cells:
        raise GridError(f"a puzzle of size {shape.size} has {shape.cells} cells; this text has {len(grid)}")
    if max(grid) > shape.size:
        raise GridError(f"{max(grid)} is not a digit of a puzzle of size {shape.size}: use 1 to {shape.size}")
    if 0 not in grid:
        raise GridError("the puzzle has no empty cell: leave some empty")
    complete_grids = solutions(shape, grid)
    if len(complete_grids) != 1:
        problem = "several solutions: give more digits" if complete_grids else "no solution: correct its digits"
        raise GridError(f"the puzzle has {problem}")
    return grid, complete_grids[0]


def next_deduction(shape: Shape, grid: Grid, solution: Grid) -> Deduction | None:
    """Return the next digit to write: a cell with one candidate, else a digit with one place in a row, column or box,
    else the cell with the fewest candidates, which takes a trial. None if no cell is empty.

    Args:
        grid: a part of the solution.
    """
    candidates = Candidates(shape, grid)
    empty = {cell: candidates.of(cell) for cell, digit in enumerate(grid) if not digit}
    if not empty:
        return None
    for cell, mask in empty.items():
        if mask.bit_count() == 1:
            return Deduction(cell, mask.bit_length() - 1, "only digit")
    reasons: tuple[Reason, ...] = ("only place in the row", "only place in the column", "only place in the box")
    for reason, units in zip(reasons, shape.members, strict=True):
        for cells in units:
            for digit in range(1, shape.size + 1):
                places = [cell for cell in cells if empty.get(cell, 0) >> digit & 1]
                if len(places) == 1:
                    return Deduction(places[0], digit, reason)
    cell = min(empty, key=lambda candidate: (empty[candidate].bit_count(), candidate))
    return Deduction(cell, solution[cell], "trial")
