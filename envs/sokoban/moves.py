"""Sokoban's moves. No rewards, no text.

A state is (player, boxes): the cell of the player and the sorted cells of the boxes.
"""

from __future__ import annotations

from collections import deque

State = tuple[int, tuple[int, ...]]

ACTIONS = ("Up", "Down", "Left", "Right")


def steps(width: int) -> tuple[int, int, int, int]:
    """Return the cell offset of each action, in the order of ACTIONS."""
    return (-width, width, -1, 1)


def move(floor: frozenset[int], state: State, step: int) -> State:
    """Return the state after one step; the same state if a wall or a second box blocks it."""
    player, boxes = state
    ahead = player + step
    if ahead not in floor:
        return state
    if ahead not in boxes:
        return ahead, boxes
    beyond = ahead + step
    if beyond not in floor or beyond in boxes:
        return state
    return ahead, tuple(sorted(beyond if box == ahead else box for box in boxes))


def walks(width: int, floor: frozenset[int], state: State) -> dict[int, int]:
    """Return cells that the player can reach without a push → number of steps."""
    player, boxes = state
    distances, todo = {player: 0}, deque([player])
    while todo:
        cell = todo.popleft()
        for step in steps(width):
            beside = cell + step
            if beside in floor and beside not in distances and beside not in boxes:
                distances[beside] = distances[cell] + 1
                todo.append(beside)
    return distances
