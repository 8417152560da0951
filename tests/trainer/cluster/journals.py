"""Journals in a form in which those of different numbers of processes can be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.trainer.loops.test_train import CLOCKS, events
from trainer.journal.events import Turn


def facts(folder: Path) -> list[str]:
    """Everything that a journal records but times, progress, faults, timeline and devices, in an order without timing.

    Events of different groups may interleave in any way.
    """
    of_the_machine = ("phase", "faults", "timeline")
    kept = [event for event in events(folder) if event.type not in of_the_machine]
    return sorted(json.dumps(_fact(event), sort_keys=True) for event in kept)


def _fact(event: Any) -> dict[str, Any]:
    data: dict[str, Any] = event.model_dump(exclude_none=True)
    for name in ("seq", "time", "seconds", "device"):
        data.pop(name, None)
    if event.type == "run_started":
        del data["config"]["cluster"]
    if event.type == "metrics":
        data["values"] = {name: value for name, value in data["values"].items() if not name.startswith(CLOCKS)}
    if event.type == "checkpoint":
        del data["bytes"]  # the progress in it contains times
    if event.type == "run_finished":
        del data["summary"]["seconds"]
    return data


def check_order(folder: Path) -> None:
    """Each trajectory is started, played turn by turn and finished once; the numbers of events have no gap."""
    recorded = events(folder)
    assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
    open_: dict[str, int] = {}
    closed: set[str] = set()
    for event in recorded:
        match event.type:
            case "run_started":
                open_, closed = {}, set()
            case "group_started":
                assert not closed & set(event.members)
                assert not open_.keys() & set(event.members)
                open_ |= dict.fromkeys(event.members, 0)
            case "turn":
                assert isinstance(event, Turn)
                assert event.turn == open_[event.trajectory], "no turn is missing or recorded twice"
                open_[event.trajectory] += 1
            case "trajectory_finished":
                assert event.turns == open_.pop(event.trajectory)
                closed.add(event.trajectory)
            case "groups_scored" | "evaluation":
                assert not open_, "all trajectories have ended when they are counted"
