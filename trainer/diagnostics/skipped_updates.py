"""Explanation of an iteration without an update: the evidence in its rollout, and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.diagnostics.signal_checks import FORMAT, MASTERED, SUCCESS
from trainer.journal.events import SkipReason
from trainer.metrics.statistics import mean
from trainer.rollout.trajectory import Trajectory

HARDLY_ANY = 0.1
"""Largest share of turns with an executed action at which the policy counts as unable to act."""
_REASONS: dict[SkipReason, str] = {
    "filter": "the filter kept no group, since too few rewards within groups differ",
    "no_signal": "all trajectories of each group got the same reward",
}
_FINE_TUNE = (
    "if the environment has a solver, begin with steps on its demonstrations (sft.warmup_steps; for the built-in "
    "policy a run of kind sft, whose checkpoint is then trained); otherwise start from a model that can already play"
)


def skipped_update_notice(
    iteration: int, reason: SkipReason, trajectories: Sequence[Trajectory], metrics: Mapping[str, float]
) -> str:
    """Say in a few sentences why an iteration has no update, and what helps.

    Args:
        iteration: counted from 1.
        reason: reason in the journal's update_skipped event.
        trajectories: trajectories of the iteration's rollout, at least one.
        metrics: metrics of the rollout.
    """
    return f"Iteration {iteration} had no update: {_REASONS[reason]}. {_advice(trajectories, metrics)}"


def _advice(trajectories: Sequence[Trajectory], metrics: Mapping[str, float]) -> str:
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    acting = mean(any(action.status == "executed" for action in turn.actions) for turn in turns) or 0.0
    valid, success = metrics.get(FORMAT, 0.0), metrics.get(SUCCESS, 0.0)
    if success >= MASTERED:
        return (
            f"{success:.0%} of the trajectories succeed, so there is little left to learn: choose harder puzzles, or "
            "train fewer iterations."
        )
    if acting <= HARDLY_ANY:
        problem = "contain no action that the environment accepts" if valid > HARDLY_ANY else "do not keep the format"
        share = 1 - (acting if valid > HARDLY_ANY else valid)
        return f"{share:.0%} of the turns {problem}, so the policy cannot play yet: {_FINE_TUNE}."
    if success == 0:
        return f"No trajectory succeeded: choose easier puzzles or larger groups (rollout.group_size). Or {_FINE_TUNE}."
    return (
        "Larger groups (rollout.group_size), a higher rollout.temperature, or puzzles of medium difficulty make the "
        "trajectories of a group differ."
    )
