"""Share of Sokoban levels solved within a second each, by exhaustive tables and by A*; every solution is replayed.

Boxoban levels are read from the folder of --path (default: shared/data/boxoban beside this folder, if it exists);
generated rooms are always measured, including rooms too large for a table.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from envs.sokoban.astar_advisor import BUDGET, AStarAdvisor, AStarSearch
from envs.sokoban.boxoban import Boxoban
from envs.sokoban.exhaustive import TableSolver
from envs.sokoban.grid import MAX_TABLE, Grid
from envs.sokoban.level_files import read_levels
from envs.sokoban.levels import Level
from envs.sokoban.moves import State
from envs.sokoban.rooms import make_room
from envs.support.rng import SeededRng, Stream
from trainer.studies import machine

DATA = Path(__file__).parents[2] / "shared" / "data" / "boxoban"
SECONDS = 1.0
GENERATED = {
    "generated 10×10, 4 boxes": (10, 4, 12, 40, 60),
    "generated 14×14, 4 boxes": (14, 4, 30, 100, 40),
    "generated 20×20, 4 boxes": (20, 4, 40, 100, 20),
}
"""Name → size, boxes, shortest and longest solution, and how many."""


@dataclass(frozen=True)
class Attempt:
    """Result of one solver on one level: actions (None if unsolved), seconds, visited states."""

    actions: list[str]
    seconds: float
    states: int
    exact: bool


@dataclass(frozen=True)
class SolverFigures:
    """Figures of one solver on one set of levels."""

    levels: str
    solver: str
    count: int
    solved: float
    exact: float
    median_ms: float
    slowest_ms: float
    median_states: int
    median_actions: float


def by_table(level: Level, state: State) -> Attempt | None:
    """Fewest actions by exhaustive table; None if the room is too large for one."""
    room = Grid(level.width, level.floor, level.targets)
    if room.positions(len(level.boxes)) > MAX_TABLE:
        return None
    started = time.perf_counter()
    actions = TableSolver(room).plan(state)
    return Attempt(actions, time.perf_counter() - started, room.positions(len(level.boxes)), True)


def by_search(level: Level, state: State) -> Attempt:
    """A*: fewest pushes, unless most of its budget was used up."""
    started = time.perf_counter()
    searcher = AStarSearch(Grid(level.width, level.floor, level.targets))
    result = searcher.find(state)
    actions = AStarAdvisor(searcher).plan(state) if result.solvable == "yes" else []
    return Attempt(actions, time.perf_counter() - started, result.expanded, result.fewest)


SOLVERS: dict[str, Callable[[Level, State], Attempt | None]] = {"table": by_table, "A*": by_search}


def play(env: Boxoban, level: Level, actions: list[str]) -> None:
    """Play a solution in the environment. Raises AssertionError unless the last action solves the level."""
    env.reset(options={"room": "\n".join(level.rows())})
    for number, action in enumerate(actions, start=1):
        _, _, terminated, _, info = env.step(action)
        assert terminated == info["success"] == (number == len(actions)), f"not solved by {len(actions)} actions"


def measure(name: str, levels: list[Level]) -> list[SolverFigures]:
    """Run both solvers on the same levels, in turn. Every solution is replayed."""
    env = Boxoban(max_steps=None)
    attempts_by_solver: dict[str, list[Attempt]] = {solver: [] for solver in SOLVERS}
    for level in levels:
        state = (level.player, tuple(sorted(level.boxes)))
        for solver, solve in SOLVERS.items():
            attempt = solve(level, state)
            if attempt is not None:
                attempts_by_solver[solver].append(attempt)
                if attempt.actions:
                    play(env, level, attempt.actions)
    rows = []
    for solver, attempts in attempts_by_solver.items():
        if attempts:
            solved = [attempt for attempt in attempts if attempt.actions and attempt.seconds <= SECONDS]
            milliseconds = [1000 * attempt.seconds for attempt in attempts]
            rows.append(
                SolverFigures(
                    levels=name,
                    solver=solver,
                    count=len(attempts),
                    solved=len(solved) / len(attempts),
                    exact=sum(attempt.exact for attempt in solved) / max(1, len(solved)),
                    median_ms=statistics.median(milliseconds),
                    slowest_ms=max(milliseconds),
                    median_states=round(statistics.median(attempt.states for attempt in attempts)),
                    median_actions=statistics.median(len(attempt.actions) for attempt in solved) if solved else 0,
                )
            )
    return rows


def sets(path: Path, limit: int | None, quick: bool) -> dict[str, list[Level]]:
    """Levels to solve by set name: every file of the folder, and generated rooms."""
    levels_by_set: dict[str, list[Level]] = {}
    if path.is_dir():
        for file in sorted(path.glob("*.txt")):
            levels = read_levels(file).levels
            levels_by_set[file.stem] = levels[: limit or (100 if quick else len(levels))]
    else:
        print(f"no folder of levels at {path}: generated rooms only (--path names another)", file=sys.stderr)
    for name, (size, boxes, shortest, longest, count) in GENERATED.items():
        number = min(count, limit or (8 if quick else count))
        levels_by_set[name] = [
            make_room(SeededRng(seed, Stream.START), size, boxes, shortest, longest) for seed in range(number)
        ]
    return levels_by_set


def main() -> int:
    parser = argparse.ArgumentParser(description="Share of Sokoban levels solved within one second each.")
    parser.add_argument("--path", type=Path, default=DATA, metavar="FOLDER", help="folder of level files")
    parser.add_argument("--levels", type=int, metavar="N", help="levels of each file (default: all)")
    parser.add_argument("--quick", action="store_true", help="100 levels of each file, few generated rooms")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    words = machine.describe()
    warm = make_room(SeededRng(0, Stream.START), 10, 4, 12, 14)
    for solve in SOLVERS.values():  # exclude compilation
        solve(warm, (warm.player, tuple(sorted(warm.boxes))))
    print(f"{words}\nA* with a budget of {BUDGET} expanded states; every solution is played to success\n")
    head = f"{'levels':28} {'solver':6} {'n':>5} {'≤ 1 s':>7} {'exact':>7} {'median':>9} {'slowest':>10}"
    print(f"{head} {'states':>9} {'actions':>8}")
    rows = []
    for name, levels in sets(options.path, options.levels, options.quick).items():
        for row in measure(name, levels):
            rows.append(row)
            print(
                f"{row.levels:28} {row.solver:6} {row.count:5} {row.solved:7.1%} {row.exact:7.1%} "
                f"{row.median_ms:6.1f} ms {row.slowest_ms:7.1f} ms {row.median_states:9} {row.median_actions:8.0f}",
                flush=True,
            )
    print(
        "\nexact: fewest actions (table) or fewest pushes (A*), of those solved; "
        "states: in the table, or expanded by A*"
    )
    if options.json:
        versions = {name: importlib.metadata.version(name) for name in ("numba", "numpy")}
        figures = {"machine": words, "versions": versions, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
