"""Origin of a branch: the attempt and the turn from which a policy played on, and what was changed there.

The attempt may be a branch itself. Then the turn is after the one from which that branch was played on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.core import formatting
from webapp.trajectories.computed_text import weights_name
from webapp.trajectories.models import BRANCH, Group, Trajectory
from webapp.trajectories.positions import position_query

CHANGED = {"state": "the message that it read", "thought": "the thought", "answer": "the answer"}
"""Changes of a question, as the subject of “was changed”."""


@dataclass(frozen=True)
class BranchOrigin:
    """Where a branch comes from. `turn` is 0-based, `weights` names the policy that played on.

    Attributes:
        attempt: the attempt that the branch continues.
        before: origin of that attempt; None if it was recorded.
    """

    attempt: Trajectory
    before: BranchOrigin | None
    question: str
    turn: int
    samples: int
    weights: str
    changed: str
    change: dict[str, str]
    checkpoint: int | None

    @property
    def trail(self) -> list[BranchOrigin]:
        """The origins from the recorded attempt down to the branch; the last one is this."""
        return [*(self.before.trail if self.before else ()), self]

    @property
    def recorded(self) -> Trajectory:
        """The recorded attempt with which the branch begins."""
        return self.trail[0].attempt

    @property
    def position(self) -> str:
        """Query of the position on the page of the attempt."""
        return position_query(self.turn, -1)

    @property
    def place(self) -> str:
        if self.before is None:
            return formatting.place(self.attempt.group.number, self.attempt.member)
        return f"branch {self.attempt.member + 1} of {self.before.place}"

    @property
    def sentence(self) -> str:
        """How it was played, without the name of the attempt, e.g. “from turn 3, with the initial policy”.

        What was changed further up belongs to the branch as well, so that all origins are named, the last one first.
        """
        changed = f"; {self.changed} was changed" if self.changed else ""
        before = f"; before that {self.before.sentence}" if self.before else ""
        return f"from turn {self.turn + 1}, with {self.weights}{changed}{before}"

    def exported(self) -> dict[str, Any]:
        """Return the field of exports, without ids inside the team."""
        own = {"turn": self.turn, "checkpoint": self.checkpoint, "change": self.change}
        return own | ({"branch": self.before.exported()} if self.before else {})


def questions_to(trajectory: Trajectory) -> list[Any]:
    """Return the questions from the recorded attempt down to a branch, its own one last; empty for a recorded attempt.

    They are of `webapp.branching`. Each one is read once for a trajectory, with its attempt, in one query.
    """
    questions: list[Any] = []
    attempt = trajectory
    while attempt.split == BRANCH and (question := _question_of(attempt)) is not None:
        questions.append(question)
        question.trajectory.run = trajectory.run
        attempt = question.trajectory
    return questions[::-1]


def _question_of(branch: Trajectory) -> Any:
    if "question" not in branch.group._state.fields_cache:
        rows = Group._base_manager.select_related("question__trajectory__group", "question__weights_run")
        branch.group = rows.filter(pk=branch.group_id).first() or branch.group
    return getattr(branch.group, "question", None)


def branch_origin(trajectory: Trajectory) -> BranchOrigin | None:
    """Return the origin of a branch; None for a recorded attempt."""
    origin = None
    for question in questions_to(trajectory):
        origin = _origin(question, origin)
    return origin


def _origin(question: Any, before: BranchOrigin | None) -> BranchOrigin:
    used = question.checkpoint if question.used_checkpoint is None else question.used_checkpoint
    weights = "the weights that played it" if used is None else weights_name(question.run_with_weights, used)
    return BranchOrigin(
        attempt=question.trajectory,
        before=before,
        question=question.slug,
        turn=question.turn or 0,
        samples=question.samples,
        weights=f"{weights} of another run" if question.weights_run_id else weights,
        changed=next((words for name, words in CHANGED.items() if name in question.change), ""),
        change=question.change,
        checkpoint=used,
    )


def place_text(trajectory: Trajectory) -> str:
    """Return group and attempt, e.g. “g4 · 12”; for a branch, e.g. “branch 3 of g4 · 12”, or of another branch."""
    if trajectory.split != BRANCH:
        return formatting.place(trajectory.group.number, trajectory.member)
    origin = branch_origin(trajectory)
    return f"branch {trajectory.member + 1}" + (f" of {origin.place}" if origin else "")
