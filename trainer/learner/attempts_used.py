"""Training use of each attempt of an iteration: whether the update learnt from it, and else why not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from trainer.journal.events import AttemptsUsed, UnusedReason
from trainer.learner.batch_selection import BatchSelection
from trainer.learner.learnt_tokens import LearntBatch
from trainer.metrics.training_use import OWN_USES, USE_PREFIX
from trainer.rollout.trajectory import Trajectory


def attempts_used(
    iteration: int,
    trajectories: Sequence[Trajectory],
    selection: BatchSelection,
    learnt: LearntBatch | None,
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


def _own_reasons(selection: BatchSelection, learnt: LearntBatch | None) -> Mapping[str, UnusedReason | None]:
    """Return the reason of each kept trajectory that lies in its own tokens; None for those that taught something."""
    if learnt is None:  # the rewards of no kept group differ
        return {trajectory.id: "equal_rewards" for trajectory in selection.kept}
    valued, taught = learnt.numbers(learnt.tokens.advantages != 0), learnt.numbers(learnt.tokens.taught)

    def reason(number: int, trajectory: Trajectory) -> UnusedReason | None:
        if not trajectory.tokens:
            return "empty"
        if number not in valued:
            return "zero_advantage"
        if not learnt.tokens.trains_policy:
            return "critic_warmup"
        return None if number in taught else "clipped"

    return {trajectory.id: reason(number, trajectory) for number, trajectory in enumerate(selection.kept)}


def use_metrics(event: AttemptsUsed) -> dict[str, float]:
    """Return the number of attempts by training use as metrics, which add up to the iteration's attempts."""
    return {f"{USE_PREFIX}{use}": float(event.counts.get(use, 0)) for use in OWN_USES}
