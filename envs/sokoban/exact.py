"""Exact solvers of Sokoban rooms: the interface of all solvers, and reverse play in plain Python for small rooms.

Distances count moves, not pushes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol, Self

from envs.base import Hint
from envs.sokoban.deadlocks import Deadlocks, unreachable_reason
from envs.sokoban.moves import ACTIONS, State, move, steps

MAX_STATES = 60_000
"""Limit of states of reverse play in plain Python: a room of one box, or 8×8 with two boxes, fits easily."""


def layers(
    width: int, floor: frozenset[int], targets: frozenset[int], max_states: int = MAX_STATES
) -> Iterator[list[State]]:
    """Yield layers of reverse play: all solved states, then all states one move from success, then two, … to the last.

    Every layer is complete and sorted. Raises OverflowError beyond `max_states` states.
    """
    goal = tuple(sorted(targets))
    layer: list[State] = [(player, goal) for player in sorted(floor - targets)]
    seen = set(layer)
    deltas = steps(width)
    while layer:
        yield layer
        previous = []
        for player, boxes in layer:
            for step in deltas:
                behind = player - step
                if behind not in floor or behind in boxes:
                    continue
                predecessor: State = (behind, boxes)
                if predecessor not in seen:
                    seen.add(predecessor)
                    previous.append(predecessor)
                ahead = player + step
                if ahead in boxes:
                    predecessor = (behind, tuple(sorted(player if box == ahead else box for box in boxes)))
                    if predecessor not in seen:
                        seen.add(predecessor)
                        previous.append(predecessor)
        if len(seen) > max_states:
            raise OverflowError(f"more than {max_states} states")
        layer = sorted(previous)


class Advisor(Protocol):
    """Gives advice about the positions of one room."""

    def hint(self, state: State) -> Hint:
        """Return the best next actions and the number of actions to success if known, or why the state is lost."""
        ...

    def plan(self, state: State) -> list[str]:
        """Return a sequence of actions to success; empty when solved, unsolvable or beyond the solver."""
        ...

    def reason(self, boxes: tuple[int, ...]) -> str | None:
        """Explain why the boxes cannot be solved; None if no deadlock test applies."""
        ...


class ExactSolver(ABC):
    """Advice by looking up the distance of any state.

    Attributes:
        complete: True if a state without a distance is certainly lost.
    """

    complete: bool

    def __init__(self, width: int, floor: frozenset[int], targets: frozenset[int]) -> None:
        self.width, self.floor, self.targets = width, floor, targets
        self._deadlocks = Deadlocks(width, floor, targets)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: it is immutable, and a copied environment has the same room."""
        return self

    @abstractmethod
    def distance(self, state: State) -> int | None:
        """Return the actions of optimal play to success; None if unsolvable or, if not `complete`, unknown."""

    def hint(self, state: State) -> Hint:
        """Return all best next actions and the number of actions to success, or why the state is lost."""
        distance = self.distance(state)
        if distance is None:
            reason = self.reason(state[1])
            if reason is None and not self.complete:
                return Hint(solvable="unknown")
            return Hint(solvable="no", reason=reason or unreachable_reason(state[1]))
        return Hint(actions=self.best(state), distance=distance)

    def best(self, state: State) -> list[str]:
        """Return all actions that reduce the distance; empty when solved, unsolvable or unknown."""
        distance = self.distance(state) or 0
        return [
            name
            for name, step in zip(ACTIONS, steps(self.width), strict=True)
            if distance and self.distance(move(self.floor, state, step)) == distance - 1
        ]

    def plan(self, state: State) -> list[str]:
        """Return one shortest sequence of actions to success; empty when solved, unsolvable or unknown."""
        actions = []
        while best := self.best(state):
            actions.append(best[0])
            state = move(self.floor, state, steps(self.width)[ACTIONS.index(best[0])])
        return actions

    def reason(self, boxes: tuple[int, ...]) -> str | None:
        """Explain why the boxes cannot be solved; None if no deadlock test applies."""
        return self._deadlocks.reason(boxes)


class Solver(ExactSolver):
    """Distances of the states of one small room, within a limit of states."""

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
