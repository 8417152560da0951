"""A room as arrays: its cells numbered one after the other, their neighbours, and which of them a box may stand on.

Only what every search over arrays shares; the searches are in table.py and search.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from envs.sokoban.moves import steps

Cells = NDArray[np.int32]
MAX_TABLE = 8_000_000
"""Limit of states of a table (two bytes each): every Boxoban level of 10×10 cells and four boxes fits."""


@dataclass(frozen=True)
class Grid:
    """Walls and targets of a room, without boxes and player. `width` cells make a row, as in a Level."""

    width: int
    floor: frozenset[int]
    targets: frozenset[int]

    @cached_property
    def cells(self) -> list[int]:
        """The floor in order: entry i is the cell that the arrays call i."""
        return sorted(self.floor)

    @cached_property
    def index(self) -> dict[int, int]:
        """Cell → its number in the arrays."""
        return {cell: number for number, cell in enumerate(self.cells)}

    @cached_property
    def neighbours(self) -> Cells:
        """(N, 4) the cell one step away in the order of ACTIONS; −1 for a wall."""
        deltas = steps(self.width)
        return np.array([[self.index.get(cell + step, -1) for step in deltas] for cell in self.cells], dtype=np.int32)

    @cached_property
    def live(self) -> list[int]:
        """Numbers of the cells from which pushes could bring a single box to some target, in order.

        Found by pulling a box away from every target with the player wherever it is needed. A box anywhere else can
        never reach a target: those cells are the dead squares.
        """
        neighbours = self.neighbours.tolist()
        todo = [self.index[target] for target in self.targets]
        found = set(todo)
        while todo:
            box = todo.pop()
            for direction in range(4):
                to = neighbours[box][direction]
                if to >= 0 and to not in found and neighbours[to][direction] >= 0:
                    found.add(to)
                    todo.append(to)
        return sorted(found)

    @cached_property
    def live_index(self) -> Cells:
        """(N,) the number of a cell among the live ones; −1 for a dead square."""
        numbers = np.full(len(self.cells), -1, dtype=np.int32)
        numbers[self.live] = np.arange(len(self.live))
        return numbers

    def positions(self, boxes: int) -> int:
        """How many states a table of this room has: the boxes anywhere among the live cells, the player on any cell."""
        return comb(len(self.live), boxes) * len(self.cells)
