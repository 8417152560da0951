"""Rollouts of later iterations that are played while the learners update (`rollout.max_staleness`).

The update corrects for older weights like decoupled PPO (Hilton et al. 2021; AReaL, arXiv 2505.24298): the clipped
ratio is relative to the trainer's own log-probabilities before the update, and each token is weighted by the ratio of
these to the log-probabilities at sampling time, at most `algorithm.tis_cap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from trainer.cluster.errors import LearnerLostError
from trainer.learner.update_meter import UpdateReport
from trainer.loops.session import RunSession
from trainer.rollout.environment_mix import get_shares, train_plans
from trainer.rollout.rollout_pool import Progress, RolloutsAheadPool
from trainer.rollout.runner import Interrupted, RolloutRequest
from trainer.rollout.trajectory import Trajectory


class RolloutsAhead:
    """Requests that are played ahead of the training iteration.

    Args:
        session: the run.
        pool: plays them.
    """

    def __init__(self, session: RunSession, pool: RolloutsAheadPool) -> None:
        self.session, self.pool = session, pool
        self._submitted = 0  # last iteration with a request in the pool

    def take(self, iteration: int, progress: Progress) -> list[Trajectory]:
        """Return the trajectories of an iteration; the pool starts on the next ones, as far as possible."""
        self._submit(iteration)
        trajectories = self.pool.collect(iteration, progress)
        self._submit(iteration + self.session.config.rollout.max_staleness)
        return trajectories

    def _submit(self, last: int) -> None:
        """Submit the requests up to this iteration, or up to the run's last one."""
        config = self.session.config
        first = max(self._submitted, self.session.progress.iteration) + 1
        for iteration in range(first, min(last, config.iterations) + 1):
            plans = train_plans(config, get_shares(config), iteration)
            self.pool.submit(RolloutRequest(plans, iteration, split="train", temperature=config.rollout.temperature))
            self._submitted = iteration

    def pumping(self, report: Callable[[UpdateReport], None]) -> Callable[[UpdateReport], None]:
        """Wrap the progress report of an update, so that it also passes on events of the pool."""

        def pump_and_report(progress: UpdateReport) -> None:
            self.pool.pump()
            report(progress)

        return pump_and_report

    @contextmanager
    def until_done(self) -> Iterator[None]:
        """Interrupt rollouts played ahead when the block ends, if the run can continue or be resumed afterwards."""
        try:
            yield
        except (Interrupted, LearnerLostError):
            self.abandon()
            raise
        self.abandon()

    def abandon(self) -> None:
        """Interrupt rollouts played ahead, and write the ends of their trajectories."""
        self.pool.abandon()


def staleness(trajectories: Sequence[Trajectory], version: int) -> dict[str, float]:
    """Compute rollout/staleness: age of the sampled tokens' weights in updates, mean and maximum over tokens.

    Without rollouts ahead both are 0, unless weights did not reach a sampler.

    Args:
        version: version of the weights before the update that learns from the trajectories.
    """
    behind, tokens, most = 0, 0, 0
    for trajectory in trajectories:
        for turn in trajectory.turn_of:
            if turn >= 0:
                lag = version - trajectory.versions[turn]
                behind, tokens, most = behind + lag, tokens + 1, max(most, lag)
    if not tokens:
        return {}
    return {"rollout/staleness": behind / tokens, "rollout/staleness_max": float(most)}
