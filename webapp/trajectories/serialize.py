"""Trajectories as plain data for the live page, the player, exports and shared pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import F, Sum, TextField, Window
from django.db.models.functions import Cast, Length

from webapp.trajectories.mistakes.judge import judged
from webapp.trajectories.models import Trajectory

_JOURNAL_FIELDS = ("type", "seq", "time", "trajectory", "frame")  # the last is for the page of the policy input
MAX_TURNS_LENGTH = 16 * 1024 * 1024
"""Maximum characters of JSON read of one trajectory's turns: more would fill the memory of the web process."""


def turn_events(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return the trajectory's turn events in order, up to MAX_TURNS_LENGTH in total."""
    length = Length(Cast("event", TextField()))
    together = Window(Sum(length), order_by=F("number").asc())
    turns = trajectory.turns.annotate(together=together).filter(together__lte=MAX_TURNS_LENGTH)
    return list(turns.order_by("number").values_list("event", flat=True))


def outcome_data(trajectory: Trajectory) -> dict[str, Any]:
    """Return the outcome of the trajectory; all null while it is being played."""
    over = trajectory.finished_seq is not None
    return {
        "success": trajectory.success,
        "end": trajectory.end if over else None,
        "total_reward": trajectory.reward if over else None,
        "lost_at": trajectory.lost_at,
    }


def turn_data(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn event for readers: without journal fields, with null for rewards that were not recorded."""
    data = {name: value for name, value in event.items() if name not in _JOURNAL_FIELDS}
    if data.get("terms") == {}:
        data["reward"] = None
        data["actions"] = [{**action, "reward": None} for action in data["actions"]]
    return data


def worst_mark_name(trajectory: Trajectory) -> str | None:
    """Return its worst mark: none, inaccuracy, mistake, blunder or unknown; None until it has been judged."""
    return None if trajectory.worst_mark is None else Trajectory.WorstMark(trajectory.worst_mark).name.lower()


def trajectory_data(trajectory: Trajectory, turns: Iterable[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a trajectory in the player's format: initial state, turns, outcome.

    `turns`: its turn events in order, if already loaded. `turns_left_out`: number of turns beyond MAX_TURNS_LENGTH.
    `turns_not_stored`: number of turns that were longer than the site reads.
    `broken_off`: True if an error ended it, such as one of its environment; without its text, which not all may read.
    `recorded`: True for another trainer's run, of which the player shows what was sent. Select its group and run.
    """
    shown = [turn_data(event) for event in (turn_events(trajectory) if turns is None else turns)]
    stored = trajectory.turns.count() if trajectory.turn_count > len(shown) else len(shown)
    missing = {"turns_left_out": stored - len(shown), "turns_not_stored": trajectory.turn_count - stored}
    return {
        "id": trajectory.key,
        "slug": trajectory.slug,
        "group": trajectory.group.number,
        "member": trajectory.member,
        "board": trajectory.group.board,
        "hint": trajectory.group.hint,
        "turns": shown,
        **{name: count for name, count in missing.items() if count > 0},
        **({"broken_off": True} if trajectory.error else {}),
        **({"recorded": True} if trajectory.run.recorded is not None else {}),
        **outcome_data(trajectory),
    }


def player_data(trajectory: Trajectory, turns: Iterable[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return the trajectory's data with marks and verdict; select its group and run with it."""
    data = trajectory_data(trajectory, turns)
    return data | judged(trajectory, data)
