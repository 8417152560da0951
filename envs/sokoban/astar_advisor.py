"""Advice in rooms too large for exhaustive play: plans of pushes found by A*, as actions.

A plan has the fewest pushes unless most of the budget was spent when it was found; the walks between its pushes are
shortest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from envs.base import Hint
from envs.sokoban import push_search
from envs.sokoban.deadlocks import Deadlocks, unreachable_reason
from envs.sokoban.exhaustive import FAR as LOST
from envs.sokoban.exhaustive import ExhaustiveTable, binomials
from envs.sokoban.grid import Grid
from envs.sokoban.lower_bounds import compute_sides, push_distances
from envs.sokoban.moves import ACTIONS, State, move, steps, walks

BUDGET = 300_000
"""Limit of expanded states of the search for a first plan; beyond it the state is "unknown"."""
BUDGET_ASTRAY = 60_000
"""The same for positions off the plan, and after a first search without result."""
EXACT_SHARE = 0.4
"""Share of the budget spent on plans with the fewest pushes; after it, weighted A* accepts any plan."""
WEIGHT = 4
"""Weight of the lower bound of weighted A*."""
PATTERN_STATES = 2_000_000
"""Limit of states of a pattern table of two or three boxes; larger rooms are searched without one."""
_SLICE = 4096  # states between two checks of the budget
_CACHE_SIZE = 2048

Push = tuple[int, int]
"""The cell of the box and the direction, an index of ACTIONS."""


@dataclass(frozen=True)
class SearchResult:
    """Result of a search. `fewest`: no solution has fewer pushes; `expanded`: number of expanded states."""

    solvable: Literal["yes", "no", "unknown"]
    pushes: tuple[Push, ...]
    fewest: bool
    expanded: int


class AStarSearch:
    """A* in one room. Results are cached by position, so that trajectories of a group share them."""

    def __init__(self, room: Grid, pattern_states: int = PATTERN_STATES) -> None:
        self.room, self._pattern_states = room, pattern_states
        boxes = len(room.targets)
        targets = np.array([room.index[target] for target in sorted(room.targets)], dtype=np.int32)
        on_target = np.zeros(len(room.cells), dtype=np.uint8)
        on_target[targets] = 1
        sides = compute_sides(room.neighbours)
        keys = np.random.PCG64(0).random_raw(2 * len(room.cells)) >> np.uint64(2)
        self.facts = push_search.Facts(
            neighbours=room.neighbours,
            live_index=room.live_index,
            targets=targets,
            on_target=on_target,
            sides=sides,
            distances=push_distances(room.neighbours, sides, targets),
            weights=binomials(len(room.live), 3),
            pairs=self._pattern(2, boxes),
            triples=self._pattern(3, boxes),
            keys=keys.astype(np.int64).reshape(2, -1),
        )
        self._cache: dict[tuple[int, tuple[int, ...], int], SearchResult] = {}

    def _pattern(self, size: int, boxes: int) -> NDArray[np.uint8]:
        """Return by rank and player whether this many boxes could reach targets without others; empty if too large."""
        if size > boxes or self.room.positions(size) > self._pattern_states:
            return np.zeros(0, dtype=np.uint8)
        reached: NDArray[np.uint8] = (ExhaustiveTable(self.room, size).distances != LOST).astype(np.uint8)
        return reached

    def region(self, state: State) -> int:
        """Return the lowest cell that the player can reach, which identifies the player's region."""
        return min(walks(self.room.width, self.room.floor, state))

    def find(self, state: State, budget: int = BUDGET, seconds: float | None = None) -> SearchResult:
        """Find a solution, or prove that there is none, within the budget.

        Args:
            budget: maximum number of expanded states.
            seconds: time limit. Results then depend on the machine and are not cached.
        """
        if set(state[1]) == self.room.targets:
            return SearchResult("yes", (), True, 0)
        key = (self.region(state), state[1], budget)
        if key in self._cache:
            return self._cache[key]
        result = self._search(*key, seconds)
        if seconds is None:
            if len(self._cache) >= _CACHE_SIZE:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = result
        return result

    def _search(self, player: int, boxes: tuple[int, ...], budget: int, seconds: float | None) -> SearchResult:
        index = self.room.index
        if any(self.facts.live_index[index[box]] < 0 for box in boxes):
            return SearchResult("no", (), False, 0)
        end = time.perf_counter() + seconds if seconds is not None else None
        begin = time.perf_counter()
        pool = new_pool(len(boxes))
        push_search.start(pool, self.facts, np.array([index[box] for box in boxes], dtype=np.int16), index[player], 1)
        weight, limit = 1, 0
        while True:
            expanded = int(pool.counters[push_search.EXPANDED])
            late = end is not None and time.perf_counter() > begin + EXACT_SHARE * (end - begin)
            if weight == 1 and (expanded >= EXACT_SHARE * budget or late):
                weight = WEIGHT
                push_search.reorder(pool, weight)
            if expanded >= budget or (end is not None and time.perf_counter() > end):
                return SearchResult("unknown", (), False, expanded)
            limit = min(budget, max(limit, expanded + _SLICE))
            outcome = push_search.expand(pool, self.facts, limit, weight)
            if outcome == push_search.SOLVED:
                return SearchResult("yes", self._pushes(pool), weight == 1, int(pool.counters[push_search.EXPANDED]))
            if outcome == push_search.EXHAUSTED:
                return SearchResult("no", (), False, int(pool.counters[push_search.EXPANDED]))
            if outcome == push_search.FULL:
                pool = grown(pool)

    def _pushes(self, pool: push_search.Pool) -> tuple[Push, ...]:
        """Return the pushes that lead to the solved node."""
        pushes: list[Push] = []
        node = int(pool.counters[push_search.FOUND])
        while pool.nodes[node, push_search.PARENT] >= 0:
            box, direction = divmod(int(pool.nodes[node, push_search.PUSH]), 4)
            pushes.append((self.room.cells[box], direction))
            node = int(pool.nodes[node, push_search.PARENT])
        return tuple(reversed(pushes))


class AStarAdvisor:
    """Advice during one episode: follows its plan, and makes a new plan when an action departs from it."""

    def __init__(self, searcher: AStarSearch, budget: int = BUDGET) -> None:
        self.room, self.searcher, self.budget = searcher.room, searcher, budget
        self._deadlocks = Deadlocks(self.room.width, self.room.floor, self.room.targets)
        self._next: dict[tuple[int, tuple[int, ...]], Push] = {}
        self._searched = False

    def fresh(self) -> AStarAdvisor:
        """Return an advisor for another episode in the same room, without this one's plans."""
        return AStarAdvisor(self.searcher, self.budget)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the plans; the search, which only caches results, is shared."""
        other = type(self)(self.searcher, self.budget)
        other._next, other._searched = dict(self._next), self._searched
        return other

    def hint(self, state: State) -> Hint:
        """Return the actions towards the plan's next push, without a distance; or why there is no plan."""
        if set(state[1]) == self.room.targets:
            return Hint(distance=0)
        reason = self.reason(state[1])
        if reason is not None:
            return Hint(solvable="no", reason=reason)
        solvable, push = self._next_push(state)
        if push is None:
            return Hint(solvable=solvable, reason=unreachable_reason(state[1]) if solvable == "no" else None)
        return Hint(actions=self._towards(state, push))

    def plan(self, state: State) -> list[str]:
        """Return a sequence of actions to success; empty when solved, unsolvable or unknown."""
        actions: list[str] = []
        while set(state[1]) != self.room.targets:
            push = self._next_push(state)[1]
            if push is None:
                return []
            while push is not None:
                action = self._towards(state, push)[0]
                actions.append(action)
                previous, state = state, move(self.room.floor, state, self._step(action))
                push = push if state[1] == previous[1] else None
        return actions

    def reason(self, boxes: tuple[int, ...]) -> str | None:
        """Explain why the boxes cannot be solved; None if no deadlock test applies."""
        return self._deadlocks.reason(boxes)

    def _next_push(self, state: State) -> tuple[Literal["yes", "no", "unknown"], Push | None]:
        """Return the next push of the current plan; makes a plan if there is none."""
        key = (self.searcher.region(state), state[1])
        if key not in self._next:
            result = self.searcher.find(state, min(self.budget, BUDGET_ASTRAY) if self._searched else self.budget)
            self._searched = True
            if not result.pushes:
                return result.solvable, None
            self._add_plan(state, result.pushes)
        return "yes", self._next[key]

    def _add_plan(self, state: State, pushes: tuple[Push, ...]) -> None:
        for push in pushes:
            self._next[self.searcher.region(state), state[1]] = push
            box, direction = push
            step = steps(self.room.width)[direction]
            state = move(self.room.floor, (box - step, state[1]), step)

    def _towards(self, state: State, push: Push) -> list[str]:
        """Return all actions that start a shortest walk to the push, or the push itself."""
        box, direction = push
        stand = box - steps(self.room.width)[direction]
        if state[0] == stand:
            return [ACTIONS[direction]]
        far = walks(self.room.width, self.room.floor, (stand, state[1]))
        return [action for action in ACTIONS if far.get(state[0] + self._step(action), -1) == far[state[0]] - 1]

    def _step(self, action: str) -> int:
        return steps(self.room.width)[ACTIONS.index(action)]


def new_pool(boxes: int, nodes: int = 1 << 14) -> push_search.Pool:
    """Return an empty pool with capacity for this many nodes."""
    return push_search.Pool(
        boxes=np.empty((nodes, boxes), dtype=np.int16),
        nodes=np.empty((nodes, 7), dtype=np.int64),
        table=np.full(4 * nodes, -1, dtype=np.int32),
        heap_keys=np.empty(2 * nodes, dtype=np.int64),
        heap_nodes=np.empty(2 * nodes, dtype=np.int32),
        counters=np.zeros(5, dtype=np.int64),
    )


def grown(pool: push_search.Pool) -> push_search.Pool:
    """Return a pool of twice the size with the same nodes."""
    nodes, boxes = pool.boxes.shape
    larger = new_pool(boxes, 2 * nodes)
    for name in ("boxes", "nodes", "heap_keys", "heap_nodes", "counters"):
        old = getattr(pool, name)
        getattr(larger, name)[: len(old)] = old
    push_search.rehash(larger)
    return larger
