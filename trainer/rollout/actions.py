"""Execution of an episode's actions in its environment."""

from __future__ import annotations

import math

from envs.base import CallRecord, TextEnv
from envs.pool import as_failure
from trainer.journal.events import ActionRecord, LostAt
from trainer.rollout.trajectory import Trajectory


class ActionExecutor:
    """Executes actions within the action budget of one episode, and records the outcome in its trajectory.

    If the environment raises, the trajectory ends with the error recorded.

    Args:
        env: the environment after its reset.
        budget: maximum number of executed actions.
        trajectory: trajectory of the episode.
    Attributes:
        remaining: actions left in the budget.
        board, hint: board and hint of the current state.
    """

    def __init__(self, env: TextEnv, budget: int, trajectory: Trajectory) -> None:
        self.env, self.remaining, self.trajectory = env, budget, trajectory
        self.board, self.hint = env.board(), env.hint()
        self._names = {name.lower(): name for name in env.env_spec.actions}

    def execute(self, text: str, turn: int, number: int) -> ActionRecord:
        """Execute action `number` of a turn, in the policy's wording. Never raises."""
        name = self._names.get(text.lower()) if self._names else text
        if name is None:
            return ActionRecord(text=text, status="illegal")
        if self.trajectory.ended or self.remaining == 0:
            return ActionRecord(text=text, status="ignored", name=name)
        try:
            return self._step(text, name, turn, number)
        except Exception as error:  # noqa: BLE001 environments are third-party code; what they raise is recorded
            self.trajectory.fail(as_failure(error))
            return ActionRecord(text=text, status="ignored", name=name)

    def _step(self, text: str, name: str, turn: int, number: int) -> ActionRecord:
        _, reward, terminated, truncated, info = self.env.step(name)
        if not info["valid"]:
            return ActionRecord(text=text, status="illegal")
        if not math.isfinite(reward):
            raise ValueError(f"the reward {reward} is not a finite number")
        board, hint = self.env.board(), self.env.hint()
        self.board, self.hint = board, hint
        self.remaining -= 1
        trajectory = self.trajectory
        trajectory.success = bool(info["success"])
        if terminated or truncated:
            trajectory.end = "terminated" if terminated else "truncated"
        if hint is not None and hint.solvable == "no" and not trajectory.success and not trajectory.lost_at:
            reason = hint.reason or "no way to success is left"
            trajectory.lost_at = LostAt(turn=turn, action=number, reason=reason)
        return ActionRecord(
            text=text,
            status="executed",
            name=name,
            reward=float(reward),
            effective=bool(info["effective"]),
            actual=info.get("actual"),
            call=CallRecord.model_validate(call) if (call := info.get("call")) else None,
            board=board,
            hint=hint,
        )
