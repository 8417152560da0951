"""Shortest solutions of cubes: breadth-first search from the solved state and from the present one, until they meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from envs.puzzles.cube_turns import Cube, cube_of

TABLE_DEPTH = {2: 6, 3: 4}
"""Turns from the solved state whose states are stored: 11,913 and 11,206 of them."""
SEARCH_DEPTH = {2: 8, 3: 2}
"""Further turns that are searched from a state: together 14 for the small cube, enough for every state of it, and 6."""


@dataclass(frozen=True)
class Advice:
    """Fewest quarter turns to the solved state, and all turns that begin a solution of that length."""

    distance: int
    turns: tuple[str, ...]


@dataclass
class CubeSolver:
    """Solver of one size. The table of states near the solved one grows when it is needed."""

    cube: Cube
    _distances: dict[str, int] = field(init=False)
    _rim: list[str] = field(init=False)
    _depth: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._distances = {self.cube.solved: 0}
        self._rim = [self.cube.solved]

    def advice(self, state: str) -> Advice | None:
        """The shortest solution; None if it is longer than `reach`."""
        distances, turns = self._distances, self.cube.turns
        while state not in distances and self._depth < TABLE_DEPTH[self.cube.size]:
            self._grow()
        if state in distances:
            distance = distances[state]
            return Advice(distance, tuple(turn for turn in turns if self._after(state, turn) == distance - 1))
        return self._search(state)

    @property
    def reach(self) -> int:
        """Longest solutions that are found, in turns."""
        return TABLE_DEPTH[self.cube.size] + SEARCH_DEPTH[self.cube.size]

    def _after(self, state: str, turn: str) -> int | None:
        """Distance after a turn; None outside of the table."""
        return self._distances.get(self.cube.turn(state, turn))

    def _grow(self) -> None:
        """Add the states that are one turn further away."""
        self._depth += 1
        rim = []
        for state in self._rim:
            for turn in self.cube.turns:
                after = self.cube.turn(state, turn)
                if after not in self._distances:
                    self._distances[after] = self._depth
                    rim.append(after)
        self._rim = rim

    def _search(self, state: str) -> Advice | None:
        """Search from a state outside of the table. Bit t of a mask: a shortest way begins with turn number t."""
        turns = self.cube.turns
        seen = {state}
        layer = {self.cube.turn(state, turn): 1 << number for number, turn in enumerate(turns)}
        for taken in range(1, SEARCH_DEPTH[self.cube.size] + 1):
            met = [mask for after, mask in layer.items() if after in self._distances]
            if met:
                # A state of the table that is met first lies on its rim: the layer before had none.
                mask = 0
                for each in met:
                    mask |= each
                first = tuple(turn for number, turn in enumerate(turns) if mask >> number & 1)
                return Advice(taken + self._depth, first)
            seen |= layer.keys()
            beyond: dict[str, int] = {}
            for before, mask in layer.items():
                for turn in turns:
                    after = self.cube.turn(before, turn)
                    if after not in seen:
                        beyond[after] = beyond.get(after, 0) | mask
            layer = beyond
        return None


@lru_cache
def solver_of(size: int) -> CubeSolver:
    """The solver of a size, shared by all environments of the process."""
    return CubeSolver(cube_of(size))
