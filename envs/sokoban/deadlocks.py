"""Deadlock tests of Sokoban positions, each with a reason; they need no search.

Every test is safe: a position that it reports is lost. A position that no test reports may still be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import combinations


class Deadlocks:
    """The tests for one room. Cells are numbered row by row, with `width` cells in a row."""

    def __init__(self, width: int, floor: frozenset[int], targets: frozenset[int]) -> None:
        self.width, self.floor, self.targets = width, floor, targets

    def reason(self, boxes: tuple[int, ...]) -> str | None:
        """Return the first reason that applies, top boxes first; None if no test applies."""
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
        if not self._matchable(boxes):
            return "too many boxes can only be pushed to the same targets"
        return None

    @cached_property
    def dead(self) -> frozenset[int]:
        """Return cells from which a box can never be pushed to a target, whatever the player and other boxes do."""
        reached: set[int] = set().union(*(self._sources(target) for target in self.targets))
        return self.floor - reached

    def frozen(self, boxes: Iterable[int]) -> frozenset[int]:
        """Return boxes that no winning play moves again.

        All boxes start as frozen; a box is movable along a row or column without walls and frozen boxes on both sides,
        unless both sides are dead squares. The first remaining box to move would need the cell of another one or enter
        a dead square.
        """
        frozen = set(boxes)
        changed = True
        while changed:
            movable = {
                box
                for box in frozen
                if any(
                    behind in self.floor
                    and after in self.floor
                    and behind not in frozen
                    and after not in frozen
                    and not (behind in self.dead and after in self.dead)
                    for behind, after in ((box - 1, box + 1), (box - self.width, box + self.width))
                )
            }
            frozen -= movable
            changed = bool(movable)
        return frozenset(frozen)

    def _matchable(self, boxes: Iterable[int]) -> bool:
        """Return True if boxes can be matched to targets that each could reach if it were the only box."""
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
        """Return cells from which a box could be pushed to the target, computed by pulling it away."""
        todo, reached = [target], {target}
        while todo:
            box = todo.pop()
            for step in (-self.width, self.width, -1, 1):
                to = box + step
                if to not in reached and to in self.floor and to + step in self.floor:
                    reached.add(to)
                    todo.append(to)
        return frozenset(reached)

    def _wall(self, cell: int) -> bool:
        return cell not in self.floor

    def _cornered(self, box: int) -> bool:
        up, down, left, right = (self._wall(box + step) for step in (-self.width, self.width, -1, 1))
        return (up or down) and (left or right)

    def _walled(self, box: int) -> bool:
        """Return True if a wall runs along the box to both ends of its row or column, without a target on the way."""
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
        """Return True if two adjacent boxes, not both on targets, have a wall on the same side."""
        first, second = pair
        if second - first not in (1, self.width) or (first in self.targets and second in self.targets):
            return False
        beside = self.width if second - first == 1 else 1
        return any(self._wall(first + side) and self._wall(second + side) for side in (beside, -beside))


def unreachable_reason(boxes: tuple[int, ...]) -> str:
    """Return the reason for a position that exhaustive play has proved to be lost."""
    return "no sequence of pushes reaches the target" + ("s" if len(boxes) > 1 else "")
