"""Rollouts of a run: training groups and evaluation suites, streamed while sampled and recorded token by token."""

from __future__ import annotations

from functools import partial

from trainer.engines.sampler import Actor
from trainer.evaluation import suite_runner
from trainer.evaluation.suites import Suite
from trainer.loops.session import RunSession
from trainer.policy.chat_format import ChatFormat
from trainer.rollout import distributed
from trainer.rollout.environment_mix import shares_of, train_plans
from trainer.rollout.runner import RolloutRequest, RolloutRunner
from trainer.rollout.token_recorder import TokenRecorder
from trainer.rollout.token_stream import TokenStream, TokenStreamListener
from trainer.rollout.trajectory import Trajectory


class RolloutStage:
    """Plays what a loop needs, on all processes of the run; closed with the session."""

    def __init__(self, session: RunSession, actor: Actor, chat: ChatFormat) -> None:
        self.session = session
        self.recorder = TokenRecorder(session.config.journal, chat)
        self._listener = partial(TokenStreamListener, TokenStream(session.folder), chat)
        runner = RolloutRunner(
            config=session.config,
            chat=chat,
            sampler=actor.sampler,
            context=actor.context,
            emit=session.journal.write,
            stop=session.stop,
        )
        self.runner = distributed.shard(runner, session.group)
        session.on_close(self.runner.close)

    def play(self, iteration: int) -> list[Trajectory]:
        """The trajectories of a training iteration."""
        config = self.session.config
        self.runner.progress = self.session.reporter.watch("rollout", iteration, config.rollout.trajectories)
        plans = train_plans(config, shares_of(config), iteration)
        request = RolloutRequest(plans, iteration, split="train", temperature=config.rollout.temperature)
        return self.runner.play(request, self._listener)

    def play_suite(self, suite: Suite, iteration: int) -> list[Trajectory]:
        """The trajectories of an evaluation suite; their tokens are recorded."""
        plans = suite_runner.group_plans(suite.config, iteration, suite.number)
        total = sum(len(plan.members) for plan in plans)
        self.runner.progress = self.session.reporter.watch("evaluate", iteration, total)
        request = RolloutRequest(
            plans, iteration, split="eval", temperature=suite.config.evaluation.temperature, suite=suite.name
        )
        trajectories = self.runner.play(request, self._listener)
        self.session.journal.write(*self.recorder.evaluated(trajectories))
        return trajectories

    def complete(self, trajectories: list[Trajectory]) -> list[Trajectory]:
        """Those whose environment did not fail. The first failure of a run is a warning, later ones only a metric."""
        failed = [trajectory for trajectory in trajectories if trajectory.failed]
        if failed:
            message = (
                f"{len(failed)} of {len(trajectories)} trajectories failed and are excluded from metrics and "
                f"training; the first one because {failed[0].error}"
            )
            self.session.warn(message, once="failed environments")
        return [trajectory for trajectory in trajectories if not trajectory.failed]

    def weights_updated(self) -> None:
        """Sample with the learner's new weights from now on."""
        self.runner.sampler.weights_updated()
