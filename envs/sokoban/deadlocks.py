"""Why a Sokoban position cannot be won, in words: tests of the boxes' places that need no search.

Every test is safe: a position it names is lost. That no test sees a reason proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import combinations


class Deadlocks:
    """The tests for one room. `width` cells make a row; cells are numbered row by row."""

    def __init__(self, width: int, floor: frozenset[int], targets: frozenset[int]) -> None:
        self.width, self.floor, self.targets = width, floor, targets

    def reason(self, boxes: tuple[int, ...]) -> str | None:
        """The first reason found; the box nearest to the top comes first. None where nothing is seen."""
        the = "the" if len(boxes) == 1 else "a"
        for box in boxes:
            if box not in self.targets and self._cornered(box):
                return f"{the} box is in a corner"
        for box in boxes:
            if box not in self.targets and self._walled(box):
                return f"{the} box is against a wall without a target"
        for square in combinations(boxes, 2):
            if self._jammed(square):
                return "two boxes block each other against a wall"
        if any(box in self.dead for box in boxes):
            return f"{the} box can no longer be pushed to {'the' if len(self.targets) == 1 else 'any'} target"
        if self.frozen(boxes) - self.targets:
            return "boxes block each other for good"
        if not self._shared_out(boxes):
            return "too many boxes can only be pushed to the same targets"
        return None

    @cached_property
    def dead(self) -> frozenset[int]:
        """Cells from which a box can never be pushed to a target, wherever the player and the other boxes are."""
        reached: set[int] = set().union(*(self._sources(target) for target in self.targets))
        return self.floor - reached

    def frozen(self, boxes: Iterable[int]) -> frozenset[int]:
        """Boxes that no winning play moves again.

        All boxes are taken as frozen until one is seen to be movable: along a row or column with no wall and no frozen
        box on either side, and not with dead squares on both. The first of those left over to move would need the
        place of another of them, or go onto a dead square.
        """
        frozen = set(boxes)
        changed = True
        while changed:
            movable = {
                box
                for box in frozen
                if any(
                    before in self.floor
                    and after in self.floor
                    and before not in frozen
                    and after not in frozen
                    and not (before in self.dead and after in self.dead)
                    for before, after in ((box - 1, box + 1), (box - self.width, box + self.width))
                )
            }
            frozen -= movable
            changed = bool(movable)
        return frozenset(frozen)

    def _shared_out(self, boxes: Iterable[int]) -> bool:
        """Whether every box can have a target of its own among those it could be pushed to if it were alone."""
        owner: dict[int, int] = {}

        def place(box: int, tried: set[int]) -> bool:
            for target in self.targets:
                if box in self._reach[target] and target not in tried:
                    tried.add(target)
                    if target not in owner or place(owner[target], tried):
                        owner[target] = box
                        return True
            return False

        return all(place(box, set()) for box in boxes)

    @cached_property
    def _reach(self) -> dict[int, frozenset[int]]:
        return {target: self._sources(target) for target in sorted(self.targets)}

    def _sources(self, target: int) -> frozenset[int]:
        """Cells from which pushes could bring a box to that target, found by pulling it away from there."""
        todo, found = [target], {target}
        while todo:
            box = todo.pop()
            for step in (-self.width, self.width, -1, 1):
                to = box + step
                if to not in found and to in self.floor and to + step in self.floor:
                    found.add(to)
                    todo.append(to)
        return frozenset(found)

    def _wall(self, cell: int) -> bool:
        return cell not in self.floor

    def _cornered(self, box: int) -> bool:
        up, down, left, right = (self._wall(box + step) for step in (-self.width, self.width, -1, 1))
        return (up or down) and (left or right)

    def _walled(self, box: int) -> bool:
        """Whether a wall runs along the box to both ends of its row or column, with no target on the way."""
        for along, beside in ((1, self.width), (1, -self.width), (self.width, 1), (self.width, -1)):
            line = [box]
            for direction in (along, -along):
                cell = box + direction
                while not self._wall(cell):
                    line.append(cell)
                    cell += direction
            if all(self._wall(cell + beside) and cell not in self.targets for cell in line):
                return True
        return False

    def _jammed(self, pair: tuple[int, ...]) -> bool:
        """Whether two neighbouring boxes, not both on targets, stand with a wall on the same side of both."""
        first, second = pair
        if second - first not in (1, self.width) or (first in self.targets and second in self.targets):
            return False
        beside = self.width if second - first == 1 else 1
        return any(self._wall(first + side) and self._wall(second + side) for side in (beside, -beside))


def unreachable_reason(boxes: tuple[int, ...]) -> str:
    """The reason of a position that exhaustive play has proved to be lost."""
    return "no sequence of pushes reaches the target" + ("s" if len(boxes) > 1 else "")
