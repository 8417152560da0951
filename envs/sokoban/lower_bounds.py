"""Lower bounds of the remaining pushes: minimum-cost matching of boxes and targets by single-box distances.

A box's distance depends on the player's side of it. Loads Numba.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.sokoban.grid import Cells
from envs.sokoban.jit import compiled

FAR = 1_000_000
"""Distance of a box that cannot reach a target; sums of it do not overflow."""


@compiled
def compute_sides(neighbours: Cells) -> NDArray[np.int8]:
    """Return (N, N) entries [b, p]: the side of a box on b at which the player on p is; −1 if p reaches no side of it.

    Sides are numbered by the first direction that leads there; a box that separates nothing has one side.
    """
    count = neighbours.shape[0]
    sides = np.full((count, count), -1, np.int8)
    stack = np.empty(count, np.int32)
    for box in range(count):
        for direction in range(4):
            start = neighbours[box, direction]
            if start < 0 or sides[box, start] >= 0:
                continue
            sides[box, start] = direction
            stack[0] = start
            size = 1
            while size:
                size -= 1
                cell = stack[size]
                for turn in range(4):
                    beside = neighbours[cell, turn]
                    if beside >= 0 and beside != box and sides[box, beside] < 0:
                        sides[box, beside] = direction
                        stack[size] = beside
                        size += 1
    return sides


@compiled
def push_distances(neighbours: Cells, sides: NDArray[np.int8], targets: Cells) -> NDArray[np.int32]:
    """Return (T, N, 4) fewest pushes of a single box from each cell and player side to each target.

    Computed by pulling the box away from the target. FAR if unreachable.
    """
    count = neighbours.shape[0]
    distances = np.full((targets.size, count, 4), FAR, np.int32)
    queue = np.empty(count * 4, np.int32)
    for number in range(targets.size):
        reached = distances[number]
        queued = 0
        for side in range(4):
            beside = neighbours[targets[number], side]
            if beside >= 0 and reached[targets[number], sides[targets[number], beside]] == FAR:
                reached[targets[number], sides[targets[number], beside]] = 0
                queue[queued] = targets[number] * 4 + sides[targets[number], beside]
                queued += 1
        at = 0
        while at < queued:
            box, side = queue[at] // 4, queue[at] % 4
            at += 1
            for direction in range(4):
                to = neighbours[box, direction]
                if to < 0 or sides[box, to] != side or neighbours[to, direction] < 0:
                    continue
                side_before = sides[to, neighbours[to, direction]]
                if reached[to, side_before] == FAR:
                    reached[to, side_before] = reached[box, side] + 1
                    queue[queued] = to * 4 + side_before
                    queued += 1
    return distances


@compiled
def assignment(costs: NDArray[np.int32]) -> int:
    """Return the minimum cost of a perfect matching of rows and columns (Hungarian method); FAR or more if none.

    Args:
        costs: (K, K) non-negative, FAR for forbidden pairs.
    """
    size = costs.shape[0]
    row_price, column_price = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    owner, previous = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    slack, used = np.empty(size + 1, np.int64), np.empty(size + 1, np.bool_)
    for row in range(1, size + 1):
        owner[0] = row
        slack[:] = 1 << 60
        used[:] = False
        column = 0
        while owner[column]:
            used[column] = True
            here, least, following = owner[column], 1 << 60, 0
            for other in range(1, size + 1):
                if not used[other]:
                    rest = costs[here - 1, other - 1] - row_price[here] - column_price[other]
                    if rest < slack[other]:
                        slack[other] = rest
                        previous[other] = column
                    if slack[other] < least:
                        least = slack[other]
                        following = other
            for other in range(size + 1):
                if used[other]:
                    row_price[owner[other]] += least
                    column_price[other] -= least
                else:
                    slack[other] -= least
            column = following
        while column:
            owner[column] = owner[previous[column]]
            column = previous[column]
    return int(-column_price[0])


@compiled
def bound(
    boxes: NDArray[np.int16], player: int, targets: Cells, sides: NDArray[np.int8], distances: NDArray[np.int32]
) -> int:
    """Return a lower bound of the remaining pushes, with a separate target per box and no other boxes. FAR: lost."""
    size = boxes.size
    costs = np.empty((size, size), np.int32)
    for index in range(size):
        side = sides[boxes[index], player]
        for target in range(size):
            if boxes[index] == targets[target]:
                costs[index, target] = 0
            else:
                costs[index, target] = distances[target, boxes[index], side] if side >= 0 else FAR
    return min(assignment(costs), FAR)
