"""Exhaustive table of a room: the exact number of moves to success of every state, by reverse play.

For rooms whose states fit into memory. Loads Numba.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from envs.sokoban.box_order import replace_box
from envs.sokoban.exact import ExactSolver
from envs.sokoban.grid import Cells, Grid
from envs.sokoban.jit import compiled
from envs.sokoban.moves import State

FAR = np.uint16(65535)
"""Distance of an unsolvable state."""


@compiled
def list_combinations(count: int, size: int, ranks: int) -> Cells:
    """Return (R, size) all combinations of `size` numbers below `count`, each ascending, ordered by rank."""
    rows = np.empty((ranks, size), np.int32)
    row = np.arange(size).astype(np.int32)
    for rank in range(ranks):
        rows[rank] = row
        index = 0
        while index < size - 1 and row[index] + 1 == row[index + 1]:
            row[index] = index
            index += 1
        row[index] += 1
    return rows


@compiled
def binomials(count: int, size: int) -> NDArray[np.int64]:
    """Return (count, size) entries [c, i] = c over i + 1, the contribution of number c at index i to a rank."""
    table = np.zeros((count, size), np.int64)
    for number in range(1, count):
        table[number, 0] = number
        for index in range(1, size):
            table[number, index] = table[number - 1, index - 1] + table[number - 1, index]
    return table


@compiled
def combination_rank(row: Cells, weights: NDArray[np.int64]) -> int:
    """Return the rank of a combination; weights: result of `binomials`."""
    rank = 0
    for index in range(row.size):
        rank += weights[row[index], index]
    return rank


@compiled
def mark_boxes(row: Cells, live: Cells, mark: Cells) -> None:
    """Write the index of each box of a combination to its cell."""
    for index in range(row.size):
        mark[live[row[index]]] = index


@compiled
def unmark(row: Cells, live: Cells, mark: Cells) -> None:
    """Undo `mark_boxes`."""
    for index in range(row.size):
        mark[live[row[index]]] = -1


@compiled
def settle(state: int, moves: int, distances: NDArray[np.uint16], queue: Cells, queued: int) -> int:
    """Record the moves from a state to success, and queue it, unless that is done. Returns the length of the queue."""
    if distances[state] != FAR:
        return queued
    distances[state] = moves
    queue[queued] = state
    return queued + 1


@compiled
def play_back(
    neighbours: Cells, live: Cells, live_index: Cells, rows: Cells, weights: NDArray[np.int64], goals: Cells, stop: int
) -> tuple[NDArray[np.uint16], Cells, int]:
    """Search backwards from solved states, breadth first: the player steps, or steps and pulls a box along.

    Args:
        neighbours: (N, 4) cells one step away, −1 for walls; opposite directions differ in their last bit.
        live, live_index: live cells, and the index of each cell among them.
        rows, weights: results of `list_combinations` and `binomials` for the live cells.
        goals: ranks of the solved positions of the boxes.
        stop: the last layer to compute; −1 for all.
    Returns:
        (R·N,) moves to success by rank · N + player, FAR if unsolvable or beyond `stop`; the states of the last layer;
        and its number (empty and one too high if there were no more layers).
    """
    count, size = neighbours.shape[0], rows.shape[1]
    distances = np.full(rows.shape[0] * count, FAR, np.uint16)
    queue = np.empty(rows.shape[0] * count, np.int32)
    mark = np.full(count, -1, np.int32)
    changed = np.empty(size, np.int32)
    queued = 0
    for goal in goals:
        mark_boxes(rows[goal], live, mark)
        for player in range(count):
            if mark[player] < 0:
                queued = settle(goal * count + player, 0, distances, queue, queued)
        unmark(rows[goal], live, mark)
    begin, end, layer = 0, queued, 0
    while layer != stop and begin < end:
        for at in range(begin, end):
            state = queue[at]
            rank, player = state // count, state % count
            mark_boxes(rows[rank], live, mark)
            for direction in range(4):
                behind = neighbours[player, direction ^ 1]
                if behind < 0 or mark[behind] >= 0:
                    continue
                queued = settle(rank * count + behind, layer + 1, distances, queue, queued)
                ahead = neighbours[player, direction]
                if ahead < 0 or mark[ahead] < 0:
                    continue
                changed[:] = rows[rank]
                replace_box(changed, mark[ahead], live_index[player])
                queued = settle(
                    combination_rank(changed, weights) * count + behind, layer + 1, distances, queue, queued
                )
            unmark(rows[rank], live, mark)
        begin, end = end, queued
        layer += 1
    return distances, queue[begin:end].copy(), layer


class ExhaustiveTable:
    """Distances of all states of a room with this number of boxes, and the numbering of states."""

    def __init__(self, room: Grid, boxes: int, stop: int = -1) -> None:
        self.room, self.boxes = room, boxes
        live = np.array(room.live, dtype=np.int32)
        self._live = {room.cells[number]: live_index for live_index, number in enumerate(room.live)}
        self._weights = binomials(len(live), boxes)
        self._rows = list_combinations(len(live), boxes, comb(len(live), boxes))
        targets = sorted(self._live[target] for target in room.targets)
        goals = np.array([self.rank(goal) for goal in combinations(targets, boxes)], dtype=np.int32)
        self.distances, self._last, self.depth = play_back(
            room.neighbours, live, room.live_index, self._rows, self._weights, goals, stop
        )

    def rank(self, places: tuple[int, ...]) -> int:
        """Return the rank of a combination of live cells, given by their indices, ascending."""
        return int(sum(self._weights[live_index, at] for at, live_index in enumerate(places)))

    def distance(self, state: State) -> int | None:
        """Return the moves to success; None if unsolvable."""
        player, boxes = state
        places = [self._live.get(box, -1) for box in boxes]
        if min(places) < 0:
            return None
        distance = self.distances[self.rank(tuple(places)) * len(self.room.cells) + self.room.index[player]]
        return None if distance == FAR else int(distance)

    def last_layer(self) -> list[State]:
        """Return the states of the last computed layer, ordered by cell."""
        cells = np.array(self.room.cells)
        count = len(cells)
        players = cells[self._last % count]
        boxes = cells[np.array(self.room.live)[self._rows[self._last // count]]]
        order = np.lexsort((*boxes.T[::-1], players))
        return [
            (player, tuple(row)) for player, row in zip(players[order].tolist(), boxes[order].tolist(), strict=True)
        ]


class TableSolver(ExactSolver):
    """Advice from a table of the whole room: distances are exact, and every "no" is proved."""

    complete = True

    def __init__(self, room: Grid) -> None:
        super().__init__(room.width, room.floor, room.targets)
        self._table = ExhaustiveTable(room, len(room.targets))

    def distance(self, state: State) -> int | None:
        return self._table.distance(state)
