"""Plays branches with weights of a run that this process loads."""

from __future__ import annotations

from collections.abc import Callable

import torch

from trainer.branching.player import BranchPlayer, Weights
from trainer.branching.starting_points import StartingPoints
from trainer.branching.unsampled import with_scores
from trainer.config.run import EngineConfig, RunConfig
from trainer.engines.sampler import Sampler
from trainer.engines.sampler_factory import in_chunks, make_sampler
from trainer.engines.transformers.cache_check import check_cache
from trainer.loops.recorded_attempts import RecordedAttempt, RecordingError, last_settings, weights_source
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, describe_device, load
from trainer.rollout.positions import Position


class LocalPlayer(BranchPlayer):
    """Plays on from positions with the weights of one run.

    Args:
        policy: the loaded weights.
        weights: where they are from.
        make: starts an engine from settings and chat format; None: the engine of the settings.
        engine: settings of that engine; None: transformers samples.
    """

    def __init__(
        self,
        policy: Policy,
        weights: Weights,
        make: Callable[[RunConfig, ChatFormat], Sampler] | None = None,
        *,
        engine: EngineConfig | None = None,
    ) -> None:
        super().__init__(weights, describe_device(policy.model.device), policy.context)
        self.policy, self._settings = policy, engine or EngineConfig()
        self._make = make or self._engine
        self._samplers: dict[frozenset[int], Sampler] = {}

    @classmethod
    def load(
        cls,
        weights: Weights,
        config: RunConfig | None = None,
        *,
        device: str = "",
        threads: int = 0,
        servers: bool = False,
    ) -> LocalPlayer:
        """Load weights.

        Args:
            config: last settings of their run; None: they are read from its journal.
            device: device of the policy; empty: the run's.
            threads: number of CPU threads; 0: the run's.
            servers: whether the vLLM servers of the run get the weights and sample. They belong to training: unless
                chosen, transformers samples.
        Raises:
            RecordingError: they are not there, or the run has no servers.
            ModelError: they cannot be loaded.
        """
        config = config or last_settings(weights.folder)
        is_served = config.engine.name == "server"
        if servers and not is_served:
            raise RecordingError("the run of these weights has no vLLM servers (engine.name=server)")
        if chosen := threads or config.policy.threads:
            torch.set_num_threads(chosen)
        changes = {"device": device} if device else {}
        source = weights_source(weights.folder, config, weights.iteration)
        policy = load(source, config.policy.model_copy(update=changes))
        check_cache(policy.model)
        return cls(policy, weights, engine=EngineConfig() if is_served and not servers else config.engine)

    @property
    def description(self) -> str:
        return f"weights after {self.weights.iteration} iterations of {self.weights.folder}"

    def points(self, attempt: RecordedAttempt) -> StartingPoints:
        return StartingPoints.of(attempt, self.policy)

    def scored(self, position: Position, points: StartingPoints, temperature: float) -> Position:
        return with_scores(position, points, self.policy, temperature)

    def close(self) -> None:
        super().close()
        for sampler in self._samplers.values():
            sampler.close()

    def _sampler(self, points: StartingPoints) -> Sampler:
        chat = points.chat
        if chat.end_ids not in self._samplers:
            self._samplers[chat.end_ids] = self._make(points.config, chat)
        return self._samplers[chat.end_ids]

    def _engine(self, config: RunConfig, chat: ChatFormat) -> Sampler:
        """Start the engine for dialogues in a format."""
        config = config.model_copy(update={"engine": self._settings})
        sampler = make_sampler(config, self.policy, chat.eos_id, self.weights.folder, chat.end_ids)
        return in_chunks(sampler, None, lambda message: None)
