"""Sokoban's moves, and the choice of a solver for a room: exact distances by reverse play here, for small rooms.

A state is (player, boxes): the cell of the player and the sorted cells of the boxes. Distances count moves, not pushes.
Larger rooms are solved in table.py and planner.py, lost positions explained in deadlocks.py. No rewards, no text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Any, Protocol, Self

from envs.base import Hint
from envs.sokoban.deadlocks import Deadlocks
from envs.sokoban.levels import Level

if TYPE_CHECKING:
    from envs.sokoban.astar_advisor import AStarSearch
    from envs.sokoban.grid import Grid

State = tuple[int, tuple[int, ...]]

ACTIONS = ("Up", "Down", "Left", "Right")
MAX_STATES = 60_000
"""States that reverse play looks at before it gives up: a room of one box, or 8×8 with two, fits with room to spare."""
MAX_TABLE = 8_000_000
"""States of a table (two bytes each): every Boxoban level of 10×10 cells and four boxes fits."""


def steps(width: int) -> tuple[int, int, int, int]:
    """What each action adds to the player's cell, in the order of ACTIONS."""
    return (-width, width, -1, 1)


def move(floor: frozenset[int], state: State, step: int) -> State:
    """The state after one step; the same state where a wall or a second box is in the way."""
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
    """Every cell the player can walk to without a push → steps to it."""
    player, boxes = state
    far, todo = {player: 0}, deque([player])
    while todo:
        cell = todo.popleft()
        for step in steps(width):
            beside = cell + step
            if beside in floor and beside not in far and beside not in boxes:
                far[beside] = far[cell] + 1
                todo.append(beside)
    return far


def layers(
    width: int, floor: frozenset[int], targets: frozenset[int], max_states: int = MAX_STATES
) -> Iterator[list[State]]:
    """Reverse play: all solved states, then all states one move from success, then two, … until there are no more.

    Every layer is complete and sorted. Raises OverflowError when more than `max_states` would have to be looked at.
    """
    goal = tuple(sorted(targets))
    layer: list[State] = [(player, goal) for player in sorted(floor - targets)]
    seen = set(layer)
    deltas = steps(width)
    while layer:
        yield layer
        found = []
        for player, boxes in layer:
            for step in deltas:
                behind = player - step
                if behind not in floor or behind in boxes:
                    continue
                before: State = (behind, boxes)
                if before not in seen:
                    seen.add(before)
                    found.append(before)
                ahead = player + step
                if ahead in boxes:
                    before = (behind, tuple(sorted(player if box == ahead else box for box in boxes)))
                    if before not in seen:
                        seen.add(before)
                        found.append(before)
        if len(seen) > max_states:
            raise OverflowError(f"more than {max_states} states")
        layer = sorted(found)


class Advisor(Protocol):
    """What gives advice about the positions of one room."""

    def hint(self, state: State) -> Hint:
        """The best next actions, the number of actions to success where it is known, or why there is no way."""
        ...

    def plan(self, state: State) -> list[str]:
        """A sequence of actions to success; empty when solved, unsolvable or beyond the solver."""
        ...

    def reason(self, boxes: tuple[int, ...]) -> str | None:
        """Why no play can win with the boxes here, in words; None where the tests see no reason."""
        ...


class ExactSolver(ABC):
    """Advice where the distance of a state can be looked up."""

    complete: bool
    """Whether a state without a distance is certain to be lost."""

    def __init__(self, width: int, floor: frozenset[int], targets: frozenset[int]) -> None:
        self.width, self.floor, self.targets = width, floor, targets
        self._deadlocks = Deadlocks(width, floor, targets)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: nothing in it ever changes, and a copied environment plays in the same room."""
        return self

    @abstractmethod
    def distance(self, state: State) -> int | None:
        """Actions of optimal play to success; None where it is out of reach or, if not `complete`, unknown."""

    def hint(self, state: State) -> Hint:
        """Every best next action, the number of actions to success, or why there is none."""
        distance = self.distance(state)
        if distance is None:
            reason = self.reason(state[1])
            if reason is None and not self.complete:
                return Hint(solvable="unknown")
            return Hint(solvable="no", reason=reason or unreachable_reason(state[1]))
        return Hint(actions=self.best(state), distance=distance)

    def best(self, state: State) -> list[str]:
        """Every action that comes one closer to success; none when solved, unsolvable or unknown."""
        distance = self.distance(state) or 0
        return [
            name
            for name, step in zip(ACTIONS, steps(self.width), strict=True)
            if distance and self.distance(move(self.floor, state, step)) == distance - 1
        ]

    def plan(self, state: State) -> list[str]:
        """One shortest sequence of actions to success; empty when solved, unsolvable or unknown."""
        actions = []
        while best := self.best(state):
            actions.append(best[0])
            state = move(self.floor, state, steps(self.width)[ACTIONS.index(best[0])])
        return actions

    def reason(self, boxes: tuple[int, ...]) -> str | None:
        """Why no play can win with the boxes here, in words; None where the tests of deadlocks.py see no reason."""
        return self._deadlocks.reason(boxes)


class Solver(ExactSolver):
    """Distances of every position of one small room to success, as far as the budget of states reaches."""

    def __init__(self, width: int, floor: frozenset[int], targets: frozenset[int], max_states: int) -> None:
        super().__init__(width, floor, targets)
        self.distances: dict[State, int] = {}
        self.complete = True
        try:
            for distance, layer in enumerate(layers(width, floor, targets, max_states)):
                self.distances.update((state, distance) for state in layer)
        except OverflowError:
            self.complete = False

    def distance(self, state: State) -> int | None:
        return self.distances.get(state)


def unreachable_reason(boxes: tuple[int, ...]) -> str:
    """The reason of a position that was played out in vain."""
    return "no sequence of pushes reaches the target" + ("s" if len(boxes) > 1 else "")


@lru_cache(maxsize=64)
def _solver(width: int, floor: frozenset[int], targets: frozenset[int], max_states: int) -> Solver:
    return Solver(width, floor, targets, max_states)


@lru_cache(maxsize=16)
def _table(room: Grid) -> Advisor:
    from envs.sokoban.exhaustive import TableSolver

    return TableSolver(room)


@lru_cache(maxsize=16)
def _searcher(room: Grid) -> AStarSearch:
    from envs.sokoban.astar_advisor import AStarSearch

    return AStarSearch(room)


def solver_of(level: Level, max_states: int = MAX_STATES, max_table: int = MAX_TABLE) -> Advisor:
    """Advice about the level's room: exact where all of its states can be looked at, by search where not.

    Up to `max_states` states, counted as if boxes could stand anywhere, reverse play in plain Python is at hand at
    once; up to `max_table` an array of the whole room is filled; larger rooms are searched. Numba is loaded only then.
    The latest rooms are remembered, so a group of trajectories shares what is the same for all positions of a room.
    """
    if len(level.floor) * comb(len(level.floor), len(level.boxes)) <= max_states:
        return _solver(level.width, level.floor, level.targets, max_states)
    from envs.sokoban.astar_advisor import AStarAdvisor
    from envs.sokoban.grid import Grid

    room = Grid(level.width, level.floor, level.targets)
    return _table(room) if room.positions(len(level.boxes)) <= max_table else AStarAdvisor(_searcher(room))
