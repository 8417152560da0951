"""Public (shared-link) representation of a trajectory: iteration, outcome and turns, nothing of the team."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from webapp.core import formatting
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import player_data

_PLACE = re.compile(r"^Turn \d+[^:]*: ")
"""The place of a mistake, with which the sentence of a verdict begins."""


def outcome_of(trajectory: Trajectory) -> str:
    """Outcome as text."""
    return formatting.outcome(
        trajectory.success, trajectory.end, trajectory.turn_count, trajectory.action_count, trajectory.lost_at
    )


def preview_title(trajectory: Trajectory, verdict: Mapping[str, Any] | None = None) -> str:
    """Title of a link in chats: the environment, and the verdict on a failed attempt or else the outcome."""
    said = _PLACE.sub("", verdict["sentence"]).removesuffix(".") if verdict else outcome_of(trajectory)
    return f"{trajectory.group.environment}: {said[:1].upper()}{said[1:]}"


def when_of(trajectory: Trajectory) -> str:
    """Point of the training at which it was played, as text."""
    if trajectory.split != "eval":
        return f"iteration {trajectory.iteration}"
    when = trajectory.run.when(trajectory.iteration)
    return f"evaluation {when}" if trajectory.iteration or trajectory.run.recorded is not None else when


def shared_data(trajectory: Trajectory) -> dict[str, Any]:
    """Data of the player without the trajectory's ids inside the team."""
    return player_data(trajectory) | {"id": "", "slug": ""}
