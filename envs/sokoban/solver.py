"""Choice of a solver for a Sokoban room."""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING

from envs.sokoban.exact import MAX_STATES, Advisor, Solver
from envs.sokoban.grid import MAX_TABLE, Grid
from envs.sokoban.levels import Level

if TYPE_CHECKING:
    from envs.sokoban.astar_advisor import AStarSearch


@lru_cache(maxsize=64)
def _solver(width: int, floor: frozenset[int], targets: frozenset[int], max_states: int) -> Solver:
    return Solver(width, floor, targets, max_states)


@lru_cache(maxsize=16)
def _table(grid: Grid) -> Advisor:
    from envs.sokoban.exhaustive import TableSolver

    return TableSolver(grid)


@lru_cache(maxsize=16)
def _search(grid: Grid) -> AStarSearch:
    from envs.sokoban.astar_advisor import AStarSearch

    return AStarSearch(grid)


def get_solver(level: Level, max_states: int = MAX_STATES, max_table: int = MAX_TABLE) -> Advisor:
    """Return a solver of the level's room: exact if all of its states can be enumerated, else by search.

    Up to `max_states` states, with boxes in any cells: reverse play in plain Python, which starts immediately; up to
    `max_table`: a table of the whole room; else A*. Numba is loaded only for the last two. The latest rooms are cached,
    so that trajectories of a group share the work.
    """
    if len(level.floor) * comb(len(level.floor), len(level.boxes)) <= max_states:
        return _solver(level.width, level.floor, level.targets, max_states)
    from envs.sokoban.astar_advisor import AStarAdvisor

    grid = Grid(level.width, level.floor, level.targets)
    return _table(grid) if grid.positions(len(level.boxes)) <= max_table else AStarAdvisor(_search(grid))
