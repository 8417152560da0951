"""Training use of each attempt of an iteration: whether the update learnt from it, and else why not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from trainer.journal.events import AttemptsUsed, UnusedReason
from trainer.learner.batch_selection import BatchSelection
from trainer.metrics.training_use import OWN_USES, USE_PREFIX
from trainer.rollout.trajectory import Batch, Trajectory


@dataclass(frozen=True)
class LearntRows:
    """Rows of an update's batch after the update.

    Attributes:
        advantages: (B, T), 0 off the mask.
        taught: (B,) rows from which the policy learnt, as `LearnerGroup.taught`.
        trains_policy: False if the iteration trained only the critic.
    """

    batch: Batch
    advantages: Tensor
    taught: Tensor
    trains_policy: bool

    def numbers(self, rows: Tensor) -> set[int]:
        """Return the numbers of the trajectories with at least one of these (B,) rows."""
        return set(self.batch.trajectory[rows].tolist())


def attempts_used(
    iteration: int,
    trajectories: Sequence[Trajectory],
    selection: BatchSelection,
    learnt: LearntRows | None,
    replaced: Collection[int] = (),
) -> AttemptsUsed:
    """Return the event that tells for each attempt of an iteration if the update learnt from it, and else why not.

    Of several reasons the earliest counts: a failed environment, then the group, then the attempt's own tokens.

    Args:
        trajectories: all trajectories of the iteration's rollout.
        selection: selection of the update's batch.
        learnt: the batch after its update; None if the update was skipped.
        replaced: groups that dynamic sampling replaced.
    """
    unused: dict[UnusedReason, list[str]] = {}
    taught = _own_reasons(selection, learnt)
    scores = {score.group: score for score in selection.scores}
    trained = 0
    for trajectory in trajectories:
        reason: UnusedReason | None
        if trajectory.failed:
            reason = "timeout" if trajectory.timed_out else "environment_error"
        elif trajectory.group in replaced:
            reason = "resampled"
        elif not scores[trajectory.group].kept:
            reason = "filtered" if scores[trajectory.group].std > 0 else "equal_rewards"
        else:
            reason = taught[trajectory.id]
            if reason == "zero_advantage" and scores[trajectory.group].std == 0:
                reason = "equal_rewards"
        if reason is None:
            trained += 1
        else:
            unused.setdefault(reason, []).append(trajectory.id)
    return AttemptsUsed(iteration=iteration, trained=trained, unused=unused)


def _own_reasons(selection: BatchSelection, learnt: LearntRows | None) -> Mapping[str, UnusedReason | None]:
    """Return the reason of each kept trajectory that lies in its own tokens; None for those that taught something."""
    if learnt is None:  # the rewards of no kept group differ
        return {trajectory.id: "equal_rewards" for trajectory in selection.kept}
    valued = learnt.numbers(((learnt.advantages != 0) & learnt.batch.mask).any(dim=1))
    taught = learnt.numbers(learnt.taught)

    def reason(number: int, trajectory: Trajectory) -> UnusedReason | None:
        if not trajectory.tokens:
            return "empty"
        if number not in valued:
            return "zero_advantage"
        if not learnt.trains_policy:
            return "critic_warmup"
        return None if number in taught else "clipped"

    return {trajectory.id: reason(number, trajectory) for number, trajectory in enumerate(selection.kept)}


def use_metrics(event: AttemptsUsed) -> dict[str, float]:
    """Return the number of attempts by training use as metrics, which add up to the iteration's attempts."""
    return {f"{USE_PREFIX}{use}": float(event.counts.get(use, 0)) for use in OWN_USES}
