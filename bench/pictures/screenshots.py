"""What the pictures show: which page, which part of it, and which trajectories tell most."""

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
        name: of the files, before the theme.
        path: address on the site, made from the run's slug, a lost trajectory and one of a puzzle that was learned.
        part: CSS selector; the whole window where the page has no such part.
        height: of the window.
        keys: pressed before the picture is taken.
        wait: CSS selector that must be visible first.
        stored: the site stores what the keys do: they are pressed in one theme, and the other page is loaded after it.
    """

    name: str
    path: Callable[[str, Trajectory, Trajectory], str]
    part: str = ""
    height: int = 900
    keys: tuple[str, ...] = ()
    wait: str = "main"
    stored: bool = False


def fatal_position(lost: Trajectory) -> str:
    """Query of the player at the action that lost the trajectory."""
    at = lost["lost_at"]
    return f"?turn={at['turn'] + 1}&action={at['action'] + 1}" if at else ""


SCREENSHOTS = (
    Screenshot(
        "player",
        lambda run, lost, learned: f"/t/{lost['slug']}{fatal_position(lost)}",
        height=860,
        wait=".board svg",
    ),
    Screenshot("result", lambda run, lost, learned: f"/runs/{run}/", part=".result", wait=".result"),
    Screenshot(
        "filmstrip",
        lambda run, lost, learned: f"/t/{learned['slug']}/prompt",
        part="[data-film]",
        keys=("End",),
        wait="[data-film] .board svg",
    ),
    Screenshot("curves", lambda run, lost, learned: f"/runs/{run}/curves", wait=".u-wrap canvas"),
    Screenshot("explorer", lambda run, lost, learned: f"/runs/{run}/trajectories?split=train", wait="table"),
)
"""Of the finished run; the live page is taken while it trains."""
FOREIGN = (
    Screenshot("recorded", lambda run, lost, learned: "?turn=2", height=1000, wait=".board img"),
    Screenshot("tool-call", lambda run, lost, learned: "?turn=2&action=1", height=760, wait=".calls"),
)
"""Of runs that other trainers recorded: the position in the player of their trajectory."""
TRAP = (
    Screenshot("trap", lambda run, lost, learned: f"/runs/{run}/", part="[data-trap]", height=1200, wait="[data-trap]"),
    Screenshot("trap-curves", lambda run, lost, learned: f"/runs/{run}/curves", wait=".u-wrap canvas"),
)
"""Of a run that fell into the Echo Trap."""
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
    """A trajectory that was lost by a move in its middle: a thought before it, and others after it.

    Raises LookupError without any lost one.
    """
    lost = [one for one in trajectories if one["lost_at"]]
    if not lost:
        raise LookupError("no trajectory of this run was lost by a move; train for more iterations")

    def order(one: Trajectory) -> tuple[int, int, str]:
        turn = one["lost_at"]["turn"]
        return (abs(turn - 2) + (turn == 0) * 3, -one["iteration"], one["key"])

    return min(lost, key=order)


def learned_puzzle(trajectories: Iterable[Trajectory]) -> Trajectory:
    """A trajectory of the evaluation puzzle that was failed longest and then stayed solved, else of the first puzzle.

    Raises LookupError without evaluations.
    """
    puzzles: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
    for one in trajectories:
        if one["split"] == "eval":
            puzzles[one["suite"], one["group"]].append(one)
    if not puzzles:
        raise LookupError("this run has no evaluation")

    def order(found: list[Trajectory]) -> tuple[int, int, int]:
        solved = [one["status"] == "success" for one in sorted(found, key=lambda one: one["iteration"])]
        changes = sum(before != after for before, after in pairwise(solved))
        learned = not solved[0] and solved[-1]
        return (not learned, changes, abs(2 * sum(solved) - len(solved)))

    best = min(puzzles.values(), key=order)
    return max(best, key=lambda one: one["iteration"])


def beginning(journal: bytes, iteration: int) -> bytes:
    """The lines of a journal up to the middle of the turns of that iteration's rollout; all of a shorter one."""
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
