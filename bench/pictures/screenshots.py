"""Contents of the pictures: pages, the parts of them, and the most telling trajectories."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Trajectory = Mapping[str, Any]
"""A trajectory of the API's lists."""
THEMES = ("light", "dark")


@dataclass(frozen=True)
class Screenshot:
    """A page of the finished run and the part of it that is shown.

    Attributes:
        name: name of the files, before the theme.
        path: address on the site, made from the run's slug, a lost trajectory and a trajectory of a learned puzzle.
        part: CSS selector; the whole window if the page has no such part.
        height: height of the window.
        keys: pressed before the picture is taken.
        wait: CSS selector that must be visible first.
        stored: the site stores the effect of the keys: they are pressed in one theme, and the other page is loaded
            later.
    """

    name: str
    path: Callable[[str, Trajectory, Trajectory], str]
    part: str = ""
    height: int = 900
    keys: tuple[str, ...] = ()
    wait: str = "main"
    stored: bool = False


def fatal_position(lost: Trajectory) -> str:
    """Return the player's query for the action that lost the trajectory."""
    at = lost["lost_at"]
    return f"?turn={at['turn'] + 1}&action={at['action'] + 1}" if at else ""


SCREENSHOTS = (
    Screenshot(
        "player",
        lambda run, lost, learned: f"/t/{lost['slug']}{fatal_position(lost)}",
        height=860,
        wait=".board svg",
    ),
    Screenshot(
        "filmstrip",
        lambda run, lost, learned: f"/t/{learned['slug']}/prompt",
        part="[data-film]",
        keys=("End",),
        wait="[data-film] .board svg",
    ),
)
"""Pictures of the finished run; the live page is taken while it trains."""
FOREIGN = (
    Screenshot("recorded", lambda run, lost, learned: "?turn=2", height=1000, wait=".board img"),
    Screenshot("tool-call", lambda run, lost, learned: "?turn=2&action=1", height=760, wait=".calls"),
)
"""Pictures of runs that other trainers recorded: the position in the player of their trajectory."""
TRAP = (
    Screenshot("trap", lambda run, lost, learned: f"/runs/{run}/", part="[data-trap]", height=1200, wait="[data-trap]"),
    Screenshot("trap-curves", lambda run, lost, learned: f"/runs/{run}/curves", wait=".u-wrap canvas"),
)
"""Pictures of a run that fell into the Echo Trap."""
TAXI = Screenshot(
    "taxi",
    lambda run, lost, learned: "/environments/Gymnasium?id=Taxi-v4&seed=3",
    height=860,
    keys=("1", "1", "4", "4"),
    wait="#play-board svg",
    stored=True,
)
"""An environment of another package, played in the browser."""


def most_telling_loss(trajectories: Iterable[Trajectory]) -> Trajectory:
    """Return a trajectory that was lost by a move in its middle, with thoughts before and after it.

    Raises LookupError if none was lost.
    """
    lost = [trajectory for trajectory in trajectories if trajectory["lost_at"]]
    if not lost:
        raise LookupError("no trajectory of this run was lost by a move; train for more iterations")

    def order(trajectory: Trajectory) -> tuple[int, int, str]:
        turn = trajectory["lost_at"]["turn"]
        return (abs(turn - 2) + (turn == 0) * 3, -trajectory["iteration"], trajectory["key"])

    return min(lost, key=order)


def learned_puzzle(trajectories: Iterable[Trajectory]) -> Trajectory:
    """Return a trajectory of the evaluation puzzle that failed longest and then stayed solved, else of the first.

    Raises LookupError without evaluations.
    """
    puzzles: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        if trajectory["split"] == "eval":
            puzzles[trajectory["suite"], trajectory["group"]].append(trajectory)
    if not puzzles:
        raise LookupError("this run has no evaluation")

    def order(attempts: list[Trajectory]) -> tuple[int, int, int]:
        solved = [
            trajectory["status"] == "success"
            for trajectory in sorted(attempts, key=lambda trajectory: trajectory["iteration"])
        ]
        changes = sum(earlier != after for earlier, after in pairwise(solved))
        learned = not solved[0] and solved[-1]
        return (not learned, changes, abs(2 * sum(solved) - len(solved)))

    best = min(puzzles.values(), key=order)
    return max(best, key=lambda trajectory: trajectory["iteration"])


def beginning(journal: bytes, iteration: int) -> bytes:
    """Return a journal's lines up to the middle of the turns of that iteration's rollout; all if it is shorter."""
    lines = journal.splitlines(keepends=True)
    kinds = [json.loads(line) for line in lines]
    begin = next(
        (
            number
            for number, event in enumerate(kinds)
            if event["type"] == "group_started" and event["iteration"] == iteration and event["split"] == "train"
        ),
        None,
    )
    if begin is None:
        return journal
    turns = []
    for number in range(begin, len(lines)):
        if kinds[number]["type"] == "turn":
            turns.append(number)
        elif kinds[number]["type"] == "groups_scored":
            break
    return b"".join(lines[: turns[len(turns) // 2] + 1]) if turns else journal
