"""What a stranger may know of a trajectory: when it was played, how it ended, every turn, nothing of the team."""

from __future__ import annotations

from typing import Any

from webapp.core import formatting
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import trajectory_data


def outcome_of(trajectory: Trajectory) -> str:
    """What became of it, in words."""
    ended = trajectory.status in Trajectory.ENDED
    success = trajectory.status == Trajectory.Status.SUCCESS if ended else None
    return formatting.outcome(
        success, trajectory.end, trajectory.turn_count, trajectory.action_count, trajectory.lost_at
    )


def when_of(trajectory: Trajectory) -> str:
    """At which point of the training it was played."""
    if trajectory.split != "eval":
        return f"iteration {trajectory.iteration}"
    return f"evaluation after iteration {trajectory.iteration}" if trajectory.iteration else "before training"


def shared_data(trajectory: Trajectory) -> dict[str, Any]:
    """What the player reads, without the trajectory's address and name inside the team."""
    return trajectory_data(trajectory) | {"id": "", "slug": ""}
