"""Plays branches with a hosted model: its endpoint gets the recorded dialogue, and continues it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from trainer.branching.player import BranchPlayer, Play, Weights
from trainer.branching.starting_points import StartingPoints
from trainer.config.hosted import CONTINUE
from trainer.config.run import RunConfig
from trainer.engines.hosted.chat import BYTE_IDS, HostedChat
from trainer.engines.hosted.costs import BudgetSpentError
from trainer.engines.hosted.hosted_client import HostedError
from trainer.engines.hosted.hosted_sampler import HostedSampler
from trainer.engines.sampler import Sampler
from trainer.loops.evaluate_hosted import UNLIMITED
from trainer.loops.recorded_attempts import RecordedAttempt
from trainer.rollout.positions import PositionError
from trainer.rollout.runner import GroupPlan
from trainer.rollout.trajectory import Trajectory


class EndpointError(ValueError):
    """The endpoint does not answer, or its budget is spent. The message is for users."""


class HostedPlayer(BranchPlayer):
    """Plays on from positions with the hosted model of a run.

    The endpoint reads text, so that responses have no recorded token ids. The budget of the run limits what this
    process spends.

    Args:
        config: settings of the run with the hosted model.
        folder: folder of that run.
    Raises:
        RefusedError: the API key is malformed.
    """

    def __init__(self, config: RunConfig, folder: Path) -> None:
        hosted = config.hosted
        super().__init__(Weights(folder, 0), f"hosted at {hosted.host}", UNLIMITED)
        self.hosted = hosted
        self._stopped = Play().stop
        self._cache = tempfile.TemporaryDirectory(prefix="echoscope-hosted-")
        self._chats: dict[tuple[bool, str], HostedChat] = {}
        self._samplers: dict[tuple[bool, str], HostedSampler] = {}

    @property
    def description(self) -> str:
        return f"the model {self.hosted.model} at {self.hosted.host}"

    def points(self, attempt: RecordedAttempt) -> StartingPoints:
        """Prepare an attempt. Raises PositionError."""
        config = attempt.environment_config.with_prompts(pocket=False)
        if config.rollout.tool_calls == "native" and attempt.group.tools:
            raise PositionError(
                "this model called tools in fields of its API, and a recording has the calls as text only"
            )
        rollout = config.rollout
        key = rollout.think, rollout.system
        if key not in self._chats:  # one for all attempts: it interns the tokens of the responses
            self._chats[key] = HostedChat(think=rollout.think, prefill=self.hosted.prefills, system=rollout.system)
        return StartingPoints(attempt, config, self._chats[key], BYTE_IDS)

    def play(
        self, points: StartingPoints, plans: Sequence[GroupPlan], temperature: float, play: Play
    ) -> list[Trajectory]:
        """Like `BranchPlayer`.

        Raises:
            EndpointError: the endpoint does not answer, or the budget is spent.
            PositionError: a response begins with given text, and the endpoint continues none.
        """
        given = [plan.position for plan in plans if plan.position and plan.position.beginning is not None]
        if not self.hosted.prefills and any(not position.is_complete for position in given):
            raise PositionError(
                f"a response cannot begin with given text at {self.hosted.host}: servers that continue a message, such "
                f"as vLLM, do if the run sets {CONTINUE}=true in hosted.extra_body. Change the answer or the state"
            )
        self._stopped = play.stop
        try:
            return super().play(points, plans, temperature, play)
        except (HostedError, BudgetSpentError) as error:
            raise EndpointError(str(error)) from error

    def close(self) -> None:
        """Cancel open requests."""
        super().close()
        for sampler in self._samplers.values():
            sampler.close()
        self._cache.cleanup()

    def _sampler(self, points: StartingPoints) -> Sampler:
        key = points.config.rollout.think, points.config.rollout.system
        if key not in self._samplers:
            folder = Path(self._cache.name) / str(len(self._samplers))
            self._samplers[key] = HostedSampler(self.hosted, self._chats[key], folder, stop=lambda: self._stopped())
        return self._samplers[key]
