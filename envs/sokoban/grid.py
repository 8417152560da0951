"""A room as arrays: consecutively numbered cells, their neighbours, and the live cells."""

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
    """Walls and targets of a room, without boxes and player. Rows have `width` cells, as in a Level."""

    width: int
    floor: frozenset[int]
    targets: frozenset[int]

    @cached_property
    def cells(self) -> list[int]:
        """Return the floor in order: entry i is cell number i of the arrays."""
        return sorted(self.floor)

    @cached_property
    def index(self) -> dict[int, int]:
        """Return cell → its number in the arrays."""
        return {cell: number for number, cell in enumerate(self.cells)}

    @cached_property
    def neighbours(self) -> Cells:
        """Return (N, 4) neighbouring cells in the order of ACTIONS; −1 for a wall."""
        deltas = steps(self.width)
        return np.array([[self.index.get(cell + step, -1) for step in deltas] for cell in self.cells], dtype=np.int32)

    @cached_property
    def live(self) -> list[int]:
        """Return numbers of the cells from which a single box could be pushed to some target, ascending.

        Computed by pulling a box away from every target, ignoring the player. All other cells are dead squares.
        """
        neighbours = self.neighbours.tolist()
        todo = [self.index[target] for target in self.targets]
        reached = set(todo)
        while todo:
            box = todo.pop()
            for direction in range(4):
                to = neighbours[box][direction]
                if to >= 0 and to not in reached and neighbours[to][direction] >= 0:
                    reached.add(to)
                    todo.append(to)
        return sorted(reached)

    @cached_property
    def live_index(self) -> Cells:
        """Return (N,) index of each cell among the live cells; −1 for a dead square."""
        numbers = np.full(len(self.cells), -1, dtype=np.int32)
        numbers[self.live] = np.arange(len(self.live))
        return numbers

    def positions(self, boxes: int) -> int:
        """Return the number of states of a table of this room: boxes on any live cells, player on any cell."""
        return comb(len(self.live), boxes) * len(self.cells)
