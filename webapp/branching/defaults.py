"""What a question takes over if it names no weights or temperature: those that played the attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.branching.asked import Asked
from webapp.branching.lineage import lineage, recorded_attempt
from webapp.runs.models import Run
from webapp.trajectories.models import BRANCH, Trajectory
from webapp.trajectories.token_computation import sampled_after


@dataclass(frozen=True)
class PlayedBy:
    """Weights and temperature that played an attempt, as a question about it names them.

    Attributes:
        weights_run: None: the run of the attempt.
        checkpoint: finished iterations; None: as recorded, or the newest of another run.
        temperature: None: as recorded.
    """

    weights_run: Run | None = None
    checkpoint: int | None = None
    temperature: float | None = None


def played_by(trajectory: Trajectory, owner: Trajectory) -> PlayedBy:
    """Return what played an attempt, for a question about `owner`.

    If that is an attempt which the branch continues, the weights are named as by the question of the branch, so that
    the same question is recognised.
    """
    questions = lineage(trajectory)
    if not questions:
        return PlayedBy()
    own = questions[-1]
    checkpoint = own.checkpoint
    if owner == trajectory and own.used_checkpoint is not None:
        checkpoint = own.used_checkpoint
    elif owner == trajectory and checkpoint is None and own.weights_run_id is None:
        checkpoint = sampled_after(questions[0].trajectory)
    return PlayedBy(own.weights_run, checkpoint, own.temperature)


def with_defaults(
    asked: Asked, weights_run: Run | None, trajectory: Trajectory, owner: Trajectory
) -> tuple[Asked, Run | None]:
    """Return a question about an attempt with weights and temperature where it names none, and the weights' run.

    Args:
        owner: attempt about which it is asked: this one, or one that it continues.
    """
    played, changes = played_by(trajectory, owner), dict[str, Any]()
    if asked.temperature is None:
        changes["temperature"] = played.temperature
    if asked.checkpoint is None and weights_run is None:
        weights_run, changes["checkpoint"] = played.weights_run, played.checkpoint
    elif asked.checkpoint is None and owner.split == BRANCH and weights_run == owner.run:
        changes["checkpoint"] = sampled_after(recorded_attempt(owner))
    return asked.model_copy(update=changes), weights_run
