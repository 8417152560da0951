"""Origin of a branch: the attempt and the turn from which a policy played on, and what was changed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.core import formatting
from webapp.trajectories.computed_text import weights_name
from webapp.trajectories.models import BRANCH, Trajectory
from webapp.trajectories.positions import position_query

CHANGED = {"state": "the message that it read", "thought": "the thought", "answer": "the answer"}
"""Changes of a question, as the subject of “was changed”."""


@dataclass(frozen=True)
class BranchOrigin:
    """Where a branch comes from. `turn` is 0-based, `weights` names the policy that played on."""

    attempt: Trajectory
    question: str
    turn: int
    samples: int
    weights: str
    changed: str
    change: dict[str, str]
    checkpoint: int | None

    @property
    def position(self) -> str:
        """Query of the position on the page of the attempt."""
        return position_query(self.turn, -1)

    @property
    def place(self) -> str:
        return formatting.place(self.attempt.group.number, self.attempt.member)

    @property
    def sentence(self) -> str:
        """How it was played, without the name of the attempt, e.g. “from turn 3, with the initial policy”."""
        changed = f"; {self.changed} was changed" if self.changed else ""
        return f"from turn {self.turn + 1}, with {self.weights}{changed}"

    def exported(self) -> dict[str, Any]:
        """Return the field of exports, without ids inside the team."""
        return {"turn": self.turn, "checkpoint": self.checkpoint, "change": self.change}


def branch_origin(trajectory: Trajectory) -> BranchOrigin | None:
    """Return the origin of a branch; None for a recorded attempt. Its rows are read once for a trajectory."""
    question = getattr(trajectory.group, "question", None) if trajectory.split == BRANCH else None
    if question is None:
        return None
    used = question.checkpoint if question.used_checkpoint is None else question.used_checkpoint
    weights = "the weights that played it" if used is None else weights_name(question.trajectory, used)
    return BranchOrigin(
        attempt=question.trajectory,
        question=question.slug,
        turn=question.turn or 0,
        samples=question.samples,
        weights=f"{weights} of another run" if question.weights_run_id else weights,
        changed=next((words for name, words in CHANGED.items() if name in question.change), ""),
        change=question.change,
        checkpoint=used,
    )


def place_text(trajectory: Trajectory) -> str:
    """Return group and attempt, e.g. “g4 · 12”; for a branch, e.g. “branch 3 of g4 · 12”."""
    if trajectory.split != BRANCH:
        return formatting.place(trajectory.group.number, trajectory.member)
    origin = branch_origin(trajectory)
    return f"branch {trajectory.member + 1}" + (f" of {origin.place}" if origin else "")
