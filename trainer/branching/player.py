"""Plays branches with one policy: the rollout code of training, from positions of recorded attempts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer.branching.starting_points import StartingPoints
from trainer.engines.sampler import Sampler
from trainer.loops.recorded_attempts import RecordedAttempt, find_attempt
from trainer.loops.stages import checkpoints
from trainer.rollout.positions import Position
from trainer.rollout.runner import GroupPlan, ListenerFactory, RolloutRequest, RolloutRunner
from trainer.rollout.trajectory import Trajectory

_KEPT_RUNNERS = 4  # whose sandbox processes wait for the next question


@dataclass(frozen=True)
class Weights:
    """Weights of a run: its folder, and the finished iterations; 0 is the initial policy, or a hosted model."""

    folder: Path
    iteration: int

    @classmethod
    def newest(cls, folder: Path) -> Weights:
        """Return the newest kept weights of a run; the initial policy without a checkpoint."""
        return cls(folder, max(checkpoints.checkpoint_iterations(folder), default=0))


@dataclass(frozen=True)
class Play:
    """What a rollout of branches reports to, and how it is limited.

    Attributes:
        emit: receives events as they occur.
        stop: polled between turns; True interrupts the rollout.
        progress: receives the number of finished branches.
        listener: creates the listener of partial responses.
        turns: turns after which a branch is interrupted; None: it is played to its end.
    """

    emit: Callable[..., None] = lambda *events: None
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[int], None] = lambda done: None
    listener: ListenerFactory | None = None
    turns: int | None = None


class BranchPlayer(ABC):
    """Plays on from positions with one policy.

    Args:
        weights: where the policy is from.
        device: where it is computed, for readers.
        context: maximum number of tokens of a dialogue.
    """

    def __init__(self, weights: Weights, device: str, context: int) -> None:
        self.weights, self.device, self.context = weights, device, context
        self._runners: OrderedDict[str, RolloutRunner] = OrderedDict()

    @property
    @abstractmethod
    def description(self) -> str:
        """Name of the policy, for readers."""

    @abstractmethod
    def points(self, attempt: RecordedAttempt) -> StartingPoints:
        """Prepare an attempt. Raises PositionError, TemplateError."""

    @abstractmethod
    def _sampler(self, points: StartingPoints) -> Sampler:
        """Return the engine for dialogues in the format of these points."""

    def scored(self, position: Position, points: StartingPoints, temperature: float) -> Position:
        """Return the position with the policy's values of tokens that it did not sample, where they can be known."""
        return position

    def starting_points(self, folder: Path, trajectory: str) -> StartingPoints:
        """Read an attempt of a run. Raises RecordingError, JournalError, PositionError, TemplateError."""
        return self.points(find_attempt(folder, trajectory))

    def play(
        self, points: StartingPoints, plans: Sequence[GroupPlan], temperature: float, play: Play
    ) -> list[Trajectory]:
        """Play branches to their ends. Returns their trajectories in the order of the plans.

        Raises:
            Interrupted: a stop was requested.
            PositionError: a position cannot be restored.
            EnvironmentsFailedError: the environment failed in every branch.
        """
        group = points.attempt.group
        runner = self._runner(points)
        runner.emit, runner.stop = play.emit, play.stop
        runner.progress = lambda done, tokens: play.progress(done)
        request = RolloutRequest(
            plans, group.iteration, group.split, temperature=temperature, suite=group.suite, turns=play.turns
        )
        return runner.play(request, play.listener)

    def close(self) -> None:
        """End the engine and the processes of environments."""
        for runner in self._runners.values():
            runner.close_environments()

    def _runner(self, points: StartingPoints) -> RolloutRunner:
        """Return the runner for an attempt's settings; the last few are kept with their sandboxes."""
        key = points.config.digest()
        if key not in self._runners:
            self._runners[key] = RolloutRunner(
                points.config, points.chat, self._sampler(points), self.context, emit=lambda *events: None
            )
        self._runners.move_to_end(key)
        if len(self._runners) > _KEPT_RUNNERS:
            self._runners.popitem(last=False)[1].close_environments()
        return self._runners[key]
