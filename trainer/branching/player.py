"""Plays branches with one policy: the rollout code of training, from positions of recorded attempts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.branching.starting_points import StartingPoints
from trainer.config.run import EngineConfig, RunConfig
from trainer.engines.sampler import Sampler
from trainer.engines.sampler_factory import in_chunks, make_sampler
from trainer.engines.transformers.cache_check import check_cache
from trainer.journal.events import Event
from trainer.loops.recorded_attempts import find_attempt, last_settings, weights_source
from trainer.loops.stages import checkpoints
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, describe_device, load
from trainer.rollout.runner import GroupPlan, ListenerFactory, RolloutRequest, RolloutRunner
from trainer.rollout.trajectory import Trajectory

_KEPT_RUNNERS = 4  # whose sandbox processes wait for the next question


@dataclass(frozen=True)
class Weights:
    """Weights of a run: its folder, and the finished iterations; 0 is the initial policy."""

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


class BranchPlayer:
    """Plays on from positions with the weights of one run.

    Args:
        policy: the loaded weights.
        weights: where they are from.
        make: starts an engine from settings and chat format; None: the engine of the settings.
    """

    def __init__(
        self, policy: Policy, weights: Weights, make: Callable[[RunConfig, ChatFormat], Sampler] | None = None
    ) -> None:
        self.policy, self.weights = policy, weights
        self.device = describe_device(policy.model.device)
        self._make = make or self._engine
        self._samplers: dict[frozenset[int], Sampler] = {}
        self._runners: OrderedDict[str, RolloutRunner] = OrderedDict()

    @classmethod
    def load(cls, weights: Weights, *, device: str = "", threads: int = 0) -> BranchPlayer:
        """Load weights.

        Args:
            device: device of the policy; empty: the run's.
            threads: number of CPU threads; 0: the run's.
        Raises:
            RecordingError: they are not there.
            ModelError: they cannot be loaded.
        """
        config = last_settings(weights.folder)
        if chosen := threads or config.policy.threads:
            torch.set_num_threads(chosen)
        changes = {"device": device} if device else {}
        source = weights_source(weights.folder, config, weights.iteration)
        policy = load(source, config.policy.model_copy(update=changes))
        check_cache(policy.model)
        return cls(policy, weights)

    def starting_points(self, folder: Path, trajectory: str) -> StartingPoints:
        """Read an attempt of a run. Raises RecordingError, JournalError, PositionError, TemplateError."""
        return StartingPoints.of(find_attempt(folder, trajectory), self.policy)

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
        for sampler in self._samplers.values():
            sampler.close()

    def _runner(self, points: StartingPoints) -> RolloutRunner:
        """Return the runner for an attempt's settings; the last few are kept with their sandboxes."""
        key = points.config.digest()
        if key not in self._runners:
            self._runners[key] = RolloutRunner(
                points.config, points.chat, self._sampler(points), self.policy.context, emit=lambda *events: None
            )
        self._runners.move_to_end(key)
        if len(self._runners) > _KEPT_RUNNERS:
            self._runners.popitem(last=False)[1].close_environments()
        return self._runners[key]

    def _sampler(self, points: StartingPoints) -> Sampler:
        chat = points.chat
        if chat.end_ids not in self._samplers:
            self._samplers[chat.end_ids] = self._make(points.config, chat)
        return self._samplers[chat.end_ids]

    def _engine(self, config: RunConfig, chat: ChatFormat) -> Sampler:
        """Start the engine of the run. Servers belong to its training, so that transformers samples instead."""
        if config.engine.name == "server":
            config = config.model_copy(update={"engine": EngineConfig()})
        sampler = make_sampler(config, self.policy, chat.eos_id, self.weights.folder, chat.end_ids)
        return in_chunks(sampler, None, lambda message: None)


def branch_events(events: Sequence[Event]) -> list[Event]:
    """Return the events of single branches: without the starts of groups."""
    return [event for event in events if getattr(event, "trajectory", None)]
