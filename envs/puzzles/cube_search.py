"""Shortest solutions of cubes: breadth-first search from the solved and the present state, until both meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from envs.puzzles.cube_turns import Cube, get_cube

TABLE_DEPTH = {2: 6, 3: 4}
"""Depth in turns from the solved state up to which states are stored: 11,913 and 11,206 states."""
SEARCH_DEPTH = {2: 8, 3: 2}
"""Further turns that are searched from a state: together 14 for the small cube, enough for every state of it, and 6."""


@dataclass(frozen=True)
class Advice:
    """Fewest quarter turns to the solved state, and all turns that begin a solution of that length."""

    distance: int
    turns: tuple[str, ...]


@dataclass
class CubeSolver:
    """Solver for one size. The table of states near the solved state grows on demand."""

    cube: Cube
    _distances: dict[str, int] = field(init=False)
    _rim: list[str] = field(init=False)
    _depth: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._distances = {self.cube.solved: 0}
        self._rim = [self.cube.solved]

    def advice(self, state: str) -> Advice | None:
        """Return the shortest solution; None if it is longer than `reach`."""
        distances, turns = self._distances, self.cube.turns
        while state not in distances and self._depth < TABLE_DEPTH[self.cube.size]:
            self._grow()
        if state in distances:
            distance = distances[state]
            return Advice(distance, tuple(turn for turn in turns if self._after(state, turn) == distance - 1))
        return self._search(state)

    @property
    def reach(self) -> int:
        """Return the length of the longest solutions that are found, in turns."""
        return TABLE_DEPTH[self.cube.size] + SEARCH_DEPTH[self.cube.size]

    def _after(self, state: str, turn: str) -> int | None:
        """Return the distance after a turn; None outside the table."""
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
        """Search from a state outside the table.

        Bit t of a mask means that a shortest solution begins with turn number t.
        """
        turns = self.cube.turns
        seen = {state}
        layer = {self.cube.turn(state, turn): 1 << number for number, turn in enumerate(turns)}
        for taken in range(1, SEARCH_DEPTH[self.cube.size] + 1):
            met = [mask for after, mask in layer.items() if after in self._distances]
            if met:
                # The first common state is on the edge of the table, because the previous layer had none.
                mask = 0
                for turn_mask in met:
                    mask |= turn_mask
                first = tuple(turn for number, turn in enumerate(turns) if mask >> number & 1)
                return Advice(taken + self._depth, first)
            seen |= layer.keys()
            beyond: dict[str, int] = {}
            for previous, mask in layer.items():
                for turn in turns:
                    after = self.cube.turn(previous, turn)
                    if after not in seen:
                        beyond[after] = beyond.get(after, 0) | mask
            layer = beyond
        return None


@lru_cache
def get_solver(size: int) -> CubeSolver:
    """Return the solver for a size, shared by all environments of the process."""
    return CubeSolver(get_cube(size))
