"""Journal of a branch: its recorded attempt up to where the first policy played on, then its own turns, end and tokens.

Rows have the turns of a branch with copies of all earlier ones, of the branches that it continues as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.journal import token_arrays
from trainer.journal.events import TrajectoryFinished, TrajectoryTokens
from webapp.branching.lineage import lineage
from webapp.ingest.limits import is_cut
from webapp.trajectories.models import TokenArrays, Trajectory
from webapp.worker.computations.job_ends import ComputationFailed

READ_AGAIN = ("state", "response")
"""Texts of a turn that the environment and the policy must have again, word for word."""


@dataclass(frozen=True)
class BranchLines:
    """What a branch puts at the end of its recorded attempt.

    Attributes:
        attempt: id of its recorded attempt in the journal, which the branch takes over.
        turn: first turn of the attempt that is not in the branch.
    """

    branch: Trajectory
    attempt: str
    turn: int

    @classmethod
    def of(cls, trajectory: Trajectory) -> BranchLines | None:
        """Return the lines of a branch; None for a recorded attempt."""
        questions = lineage(trajectory)
        return cls(trajectory, questions[0].trajectory.key, questions[0].turn or 0) if questions else None

    def replaces(self, event: Mapping[str, Any]) -> bool:
        """Whether an event of the journal tells how the recorded attempt went on."""
        if event.get("trajectory") != self.attempt:
            return False
        return event.get("type") != "turn" or event.get("turn", 0) >= self.turn

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events of the branch, under the id of the recorded attempt. Raises ComputationFailed."""
        turns = self.branch.turns.filter(number__gte=self.turn).order_by("number")
        expected = self.turn
        for event in turns.values_list("event", flat=True):
            if event["turn"] != expected or any(is_cut(event[name]) for name in READ_AGAIN):
                raise ComputationFailed(f"Turn {expected + 1} of this branch was too long to be stored word for word.")
            expected += 1
            yield event | {"trajectory": self.attempt}
        yield self._end().model_dump(mode="json", exclude_none=True)
        packed = TokenArrays.objects.filter(trajectory=self.branch).values_list("data", flat=True).first()
        if packed is not None and self.branch.token_count:
            tokens = TrajectoryTokens(
                trajectory=self.attempt, tokens=self.branch.token_count, data=token_arrays.as_text(bytes(packed))
            )
            yield tokens.model_dump(mode="json", exclude_none=True)

    def _end(self) -> TrajectoryFinished:
        branch = self.branch
        return TrajectoryFinished.model_validate(
            {
                "trajectory": self.attempt,
                "success": branch.success,
                "end": branch.end,
                "total_reward": branch.reward,
                "turns": branch.turn_count,
                "actions": branch.action_count,
                "tokens": branch.token_count,
                "lost_at": branch.lost_at,
                "error": branch.error or None,
            }
        )
