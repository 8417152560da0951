"""Trajectories as plain data for the live page, the player, exports and shared pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webapp.trajectories.models import Trajectory

_JOURNAL_FIELDS = ("type", "seq", "time", "trajectory")


def outcome_data(trajectory: Trajectory) -> dict[str, Any]:
    """Outcome of the trajectory; all null while it is being played."""
    over = trajectory.finished_seq is not None
    return {
        "success": trajectory.status == Trajectory.Status.SUCCESS if over else None,
        "end": trajectory.end if over else None,
        "total_reward": trajectory.total_reward if over else None,
        "lost_at": trajectory.lost_at,
    }


def trajectory_data(trajectory: Trajectory, turns: Iterable[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A trajectory in the player's format: initial state, turns, outcome.

    `turns`: its turn events in order, if already fetched.
    """
    if turns is None:
        turns = trajectory.turns.order_by("number").values_list("event", flat=True)
    return {
        "id": trajectory.key,
        "slug": trajectory.slug,
        "group": trajectory.group.number,
        "member": trajectory.member,
        "board": trajectory.group.board,
        "hint": trajectory.group.hint,
        "turns": [{name: value for name, value in event.items() if name not in _JOURNAL_FIELDS} for event in turns],
        **outcome_data(trajectory),
    }
