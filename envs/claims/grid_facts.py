"""Facts of a grid: the cells of its things, and tests of directions, distances and neighbourhoods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from envs.claims.claim_rules import Cell

THINGS: dict[str, dict[str, str]] = {
    "sokoban": {"player": "@+", "box": "$*", "target": ".*+", "wall": "#", "empty": " ."},
    "frozen_lake": {"player": "@+X", "goal": "G+", "hole": "OX", "ice": " @", "empty": " "},
}
"""Theme → thing → characters of the cells where it is."""
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}

Offset = tuple[str, int | None]
"""A direction, and a number of cells where one is stated."""


@dataclass(frozen=True)
class GridFacts:
    """A grid of a theme in THINGS, with at least one row. Cells are row and column from 0."""

    theme: str
    rows: tuple[str, ...]

    @cached_property
    def things(self) -> Mapping[str, frozenset[Cell]]:
        """Return thing → its cells."""
        cells = [((row, column), sign) for row, text in enumerate(self.rows) for column, sign in enumerate(text)]
        signs = THINGS[self.theme].items()
        return {thing: frozenset(cell for cell, sign in cells if sign in those) for thing, those in signs}

    @property
    def size(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return len(self.rows), max(map(len, self.rows))

    def inside(self, cell: Cell) -> bool:
        """Return True if the board has the cell."""
        return 0 <= cell[0] < len(self.rows) and 0 <= cell[1] < len(self.rows[cell[0]])

    def blocked(self, cell: Cell, *directions: str) -> bool:
        """Return True if a wall or the edge is on one of these sides of a cell."""
        neighbours = [moved(cell, [(name, 1)]) for name in directions]
        return any(not self.inside(neighbour) or neighbour in self.things.get("wall", ()) for neighbour in neighbours)

    def names_at(self, cell: Cell) -> str:
        """Return a text on the contents of a cell."""
        if not self.inside(cell):
            return "the edge"
        names = [thing for thing, cells in self.things.items() if cell in cells and thing != "empty"]
        return " and ".join(names) or "empty"

    def where(self, thing: str) -> str:
        """Return a text on the places of things of a kind."""
        cells = sorted(self.things[thing])
        if not cells:
            return f"there is no {thing}"
        name, verb = (thing, "is") if len(cells) == 1 else ({"box": "boxes"}.get(thing, f"{thing}s"), "are")
        return f"the {name} {verb} at " + " and ".join(f"row {row + 1}, column {column + 1}" for row, column in cells)

    @cached_property
    def connected(self) -> bool:
        """Return True if the player of a lake can reach a goal without entering a hole, if it does not slip."""
        todo = list(self.things["player"])
        seen = set(todo)
        while todo:
            neighbours = {moved(todo[-1], [(name, 1)]) for name in STEPS} - seen - self.things["hole"]
            todo[-1:] = [neighbour for neighbour in neighbours if self.inside(neighbour)]
            seen |= neighbours
        return bool(self.things["goal"] & seen)


def moved(cell: Cell, offsets: Iterable[Offset]) -> Cell:
    """Return the cell in these directions; one step if no number is stated."""
    row, column = cell
    for direction, number in offsets:
        down, right = STEPS[direction]
        times = 1 if number is None else number
        row, column = row + times * down, column + times * right
    return row, column


def any_true(verdicts: Iterable[bool | None]) -> bool | None:
    """Return True if some verdict is true, False if all are false, None otherwise."""
    known = list(verdicts)
    return True if True in known else None if None in known or not known else False


def in_direction(cell: Cell, origin: Cell, offsets: Sequence[Offset], *, close: bool, lines: bool) -> bool | None:
    """Return True if a cell is in these directions from another one; None if people would disagree.

    Args:
        offsets: at most one direction for each axis.
        close: "directly", "right above": in line, and perhaps adjacent.
        lines: the numbers count rows or columns, so that they leave the other axis open.
    """
    difference = [cell[0] - origin[0], cell[1] - origin[1]]
    for direction, number in offsets:
        axis, step = next((axis, step) for axis, step in enumerate(STEPS[direction]) if step)
        along, difference[axis] = difference[axis] * step, 0
        if along <= 0 or (number is not None and along != number):
            return False
    if len(offsets) > 1 or any(difference):
        return True if len(offsets) > 1 or (lines and not close and number is not None) else False if close else None
    return None if close and number is None and along > 1 else True


def adjacent(cell: Cell, other: Cell) -> bool | None:
    """Return True if two cells share a side; None for a corner."""
    down, across = abs(cell[0] - other[0]), abs(cell[1] - other[1])
    return True if down + across == 1 else None if down == across == 1 else False


def apart(cell: Cell, other: Cell, number: int) -> bool | None:
    """Return True if two cells are so many steps apart; None if a detour or a diagonal could be meant."""
    down, across = abs(cell[0] - other[0]), abs(cell[1] - other[1])
    if number == down + across:
        return True
    return None if number > down + across or number == max(down, across) else False
