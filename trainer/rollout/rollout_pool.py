"""Rollout pool: the interface to the players of a run, and the pool of the main process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from transformers import PreTrainedModel

from trainer.policy.weights import VersionedWeights
from trainer.rollout.runner import (
    EnvironmentsFailedError,
    ListenerFactory,
    RolloutRequest,
    RolloutRunner,
    check_played,
)
from trainer.rollout.sessions import join, split_sessions
from trainer.rollout.trajectory import Trajectory

Progress = Callable[[int, int], None]
"""Receives the numbers of finished trajectories and of sampled tokens of a request."""


class WeightSource(Protocol):
    """Source of the newest weights: the learners of a run.

    Attributes:
        version: version of the current weights.
    """

    @property
    def version(self) -> int: ...

    def weights(self) -> VersionedWeights:
        """Return a copy of the policy's current weights."""


class RolloutPool(Protocol):
    """Engines and environments that play the groups of a run.

    The driver decides what is played, with all seeds, and receives every event; events of one trajectory are in
    sequence. Trajectories depend only on plans and weights, but the last bits of their log-probabilities depend on
    which groups an engine samples together (`rollout.groups_per_session`).

    Attributes:
        device: description of the sampling devices.
    """

    device: str

    def play(self, request: RolloutRequest, progress: Progress) -> list[Trajectory]:
        """Play all groups. Returns their trajectories in the order of the plans.

        Raises:
            Interrupted: a stop was requested.
            EnvironmentsFailedError: the environment failed in every trajectory.
        """

    def update_weights(self, learners: WeightSource) -> None:
        """Play with the learners' new weights from now on."""

    def close(self) -> None:
        """Release everything that the pool started; it cannot be used afterwards."""


@runtime_checkable
class RolloutsAheadPool(RolloutPool, Protocol):
    """A pool that plays while its driver is busy, and takes new weights meanwhile."""

    def submit(self, request: RolloutRequest) -> None:
        """Begin to play the request of an iteration, after previously submitted requests."""

    def collect(self, iteration: int, progress: Progress) -> list[Trajectory]:
        """Wait for the submitted request of an iteration. Returns and raises like `play`."""

    def pump(self) -> None:
        """Pass on events without waiting: to be called often while the driver is busy."""

    def abandon(self) -> None:
        """Interrupt all requests between turns; the journal gets the ends of their trajectories."""

    def usage(self) -> dict[str, float]:
        """Return cluster/*: metrics of the actors since the last call."""


class LocalRolloutPool:
    """A pool of one engine in this process.

    It samples from the learner's own model, so that no weights are copied, or from a copy of it.

    Args:
        runner: plays the groups.
        listener: creates the listener of partial responses; None: no listener.
        groups_per_session: number of groups that are sampled together; 0: all.
        device: description of the engine's device.
    Attributes:
        copy: the sampling model, if learners elsewhere have another one; None: it is the learner's model.
    """

    def __init__(
        self, runner: RolloutRunner, listener: ListenerFactory | None, *, groups_per_session: int, device: str
    ) -> None:
        self.runner, self.listener, self.device = runner, listener, device
        self.groups_per_session = groups_per_session
        self.copy: PreTrainedModel | None = None

    def play(self, request: RolloutRequest, progress: Progress) -> list[Trajectory]:
        parts: list[list[Trajectory]] = []
        done = tokens = 0

        def report(done_in_session: int, tokens_in_session: int) -> None:
            progress(done + done_in_session, tokens + tokens_in_session)

        self.runner.progress = report
        for session in split_sessions(request, self.groups_per_session):
            try:
                parts.append(self.runner.play(session, self.listener))
            except EnvironmentsFailedError as error:  # environments of other sessions may not have failed
                parts.append(error.trajectories)
            done += len(parts[-1])
            tokens += sum(trajectory.tokens for trajectory in parts[-1])
        trajectories = join(request.plans, parts)
        check_played(trajectories)
        return trajectories

    def update_weights(self, learners: WeightSource) -> None:
        if self.copy is not None:
            learners.weights().load_into(self.copy)
        self.runner.sampler.weights_updated(learners.version)

    def close(self) -> None:
        self.runner.close()
