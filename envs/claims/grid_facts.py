"""Facts of a grid: where its things are, and whether a direction, a distance or a neighbourhood holds between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from envs.base import GridBoard
from envs.claims.coordinates import Cell

THINGS: dict[str, dict[str, str]] = {
    "sokoban": {"player": "@+", "box": "$*", "target": ".*+", "wall": "#", "empty": " ."},
    "frozen_lake": {"player": "@+X", "goal": "G+", "hole": "OX", "ice": " @", "empty": " "},
}
"""Theme → thing → characters of the cells where it is."""
MOVABLE = {"player", "box"}
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}

Offset = tuple[str, int | None]
"""A direction, and a number of cells where one is stated."""


@dataclass(frozen=True)
class GridFacts:
    """A grid of a theme in THINGS."""

    theme: str
    rows: tuple[str, ...]

    @staticmethod
    def of(board: GridBoard) -> GridFacts | None:
        """The facts of a board; None for a theme whose things are unknown."""
        return _facts(board.theme, tuple(board.rows)) if board.theme in THINGS and any(board.rows) else None

    @cached_property
    def things(self) -> Mapping[str, frozenset[Cell]]:
        """Thing → its cells, row and column from 0."""
        return {
            thing: frozenset(
                (row, column) for row, text in enumerate(self.rows) for column, sign in enumerate(text) if sign in signs
            )
            for thing, signs in THINGS[self.theme].items()
        }

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), max(map(len, self.rows))

    def inside(self, cell: Cell) -> bool:
        return 0 <= cell[0] < len(self.rows) and 0 <= cell[1] < len(self.rows[cell[0]])

    def is_wall(self, cell: Cell) -> bool:
        """Whether the cell blocks: a wall, or beyond the edge."""
        return not self.inside(cell) or cell in self.things.get("wall", frozenset())

    def names_at(self, cell: Cell) -> list[str]:
        """What is in a cell, in words."""
        if not self.inside(cell):
            return ["the edge"]
        return [thing for thing, cells in self.things.items() if cell in cells and thing != "empty"] or ["empty"]

    def cornered(self, cell: Cell) -> bool:
        """Whether walls stand on two adjoining sides of a cell."""
        up, down, left, right = (self.is_wall(_moved(cell, name)) for name in ("up", "down", "left", "right"))
        return (up or down) and (left or right)

    def walled(self, cell: Cell) -> bool:
        """Whether a wall stands on some side of a cell."""
        return any(self.is_wall(_moved(cell, name)) for name in STEPS)

    @cached_property
    def reachable(self) -> frozenset[Cell]:
        """Cells that the player can reach on a lake without entering a hole, if it does not slip."""
        todo = deque(self.things["player"])
        seen = set(todo)
        while todo:
            cell = todo.popleft()
            for name in STEPS:
                beside = _moved(cell, name)
                if beside not in seen and self.inside(beside) and beside not in self.things["hole"]:
                    seen.add(beside)
                    todo.append(beside)
        return frozenset(seen)


@lru_cache(maxsize=512)
def _facts(theme: str, rows: tuple[str, ...]) -> GridFacts:
    """Cached: the trajectories of a group share many states."""
    return GridFacts(theme, rows)


def _moved(cell: Cell, direction: str, times: int = 1) -> Cell:
    step = STEPS[direction]
    return cell[0] + times * step[0], cell[1] + times * step[1]


def any_of(verdicts: Iterable[bool | None]) -> bool | None:
    """True if some verdict is true, False if all are false, None otherwise."""
    known = list(verdicts)
    return True if True in known else None if None in known or not known else False


def lies(cell: Cell, origin: Cell, offsets: Sequence[Offset], *, close: bool, exact_axis: bool) -> bool | None:
    """Whether a cell lies in these directions from another one; None where people would differ.

    Args:
        offsets: at most one direction for each axis.
        close: "directly", "right above": in line, and perhaps adjacent.
        exact_axis: the numbers count rows and columns, so that they leave the other axis open.
    """
    difference = cell[0] - origin[0], cell[1] - origin[1]
    open_axes = {0, 1}
    for direction, number in offsets:
        axis = 0 if STEPS[direction][0] else 1
        along = difference[axis] * STEPS[direction][axis]
        if along <= 0 or (number is not None and along != number):
            return False
        open_axes.discard(axis)
    if not open_axes:
        return True
    across = abs(difference[open_axes.pop()])
    if across == 0:
        direction, number = offsets[0]
        return None if close and number is None and abs(sum(difference)) > 1 else True
    if close:
        return False
    return True if exact_axis and offsets[0][1] is not None else None


def adjacent(cell: Cell, other: Cell) -> bool | None:
    """Whether two cells share a side; None for a corner."""
    down, across = abs(cell[0] - other[0]), abs(cell[1] - other[1])
    return True if down + across == 1 else None if down == across == 1 else False


def apart(cell: Cell, other: Cell, number: int) -> bool | None:
    """Whether two cells are so many steps apart; None where a way around or a diagonal could be meant."""
    down, across = abs(cell[0] - other[0]), abs(cell[1] - other[1])
    if number == down + across:
        return True
    return None if number > down + across or number == max(down, across) else False


def neighbour(cell: Cell, offsets: Sequence[Offset]) -> Cell:
    """The cell in these directions; one step where no number is stated."""
    for direction, number in offsets:
        cell = _moved(cell, direction, 1 if number is None else number)
    return cell


def place_words(cells: Iterable[Cell]) -> str:
    """Cells as rows and columns from 1: "row 2, column 4 and row 3, column 1"."""
    return " and ".join(f"row {row + 1}, column {column + 1}" for row, column in sorted(cells))
