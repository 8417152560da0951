"""Public (shared-link) representation of a trajectory: iteration, outcome and turns, nothing of the team."""

from __future__ import annotations

from typing import Any

from webapp.core import formatting
from webapp.trajectories.branch_origin import branch_origin
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import player_data


def outcome_text(trajectory: Trajectory) -> str:
    """Return the outcome as text."""
    return formatting.outcome(
        trajectory.success, trajectory.end, trajectory.turn_count, trajectory.action_count, trajectory.lost_at
    )


def comment_on(trajectory: Trajectory) -> str:
    """The comment on the attempt, which names its outcome only while it is played and until it has been judged."""
    return trajectory.commentary or formatting.sentence(outcome_text(trajectory))


def preview_title(trajectory: Trajectory) -> str:
    """Title of a link in chats, above the comment."""
    environment, when = trajectory.group.environment, training_point(trajectory)
    if trajectory.run.recorded is not None:
        return f"An attempt at {environment} ({when})"
    return f"A language model plays {environment} ({when})"


def training_point(trajectory: Trajectory) -> str:
    """Return the point of training at which it was played, or from where a branch was played on, as text."""
    if origin := branch_origin(trajectory):
        return f"played on {origin.sentence}"
    if trajectory.split != "eval":
        return f"iteration {trajectory.iteration}"
    when = trajectory.run.when(trajectory.iteration)
    return f"evaluation {when}" if trajectory.iteration or trajectory.run.recorded is not None else when


def shared_data(trajectory: Trajectory) -> dict[str, Any]:
    """Return the data of the player without the trajectory's ids inside the team."""
    return player_data(trajectory) | {"id": "", "slug": ""}
