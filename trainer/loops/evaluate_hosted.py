"""Evaluation runs of a model behind an endpoint: who plays, what it took, and the end when the budget is spent.

What an evaluation run is stands in evaluation_runs.py.
"""

from __future__ import annotations

from trainer.engines.hosted.chat import HostedChat
from trainer.engines.hosted.costs import BudgetSpentError
from trainer.engines.hosted.hosted_client import HostedError, RefusedError
from trainer.engines.hosted.hosted_sampler import HostedSampler
from trainer.engines.sampler import Actor
from trainer.evaluation.suites import Suite, suites_of
from trainer.journal.events import Evaluation, RunFinished
from trainer.loops.evaluate import EvaluationRun, results

UNLIMITED = 2**40
"""Ids of a dialogue: the endpoint says itself when its context is full."""


class HostedEvaluationRun(EvaluationRun):
    """A run that loads nothing: each response is asked for, and what was answered before is not asked for again."""

    chat: HostedChat

    def train(self) -> RunFinished:
        try:
            return super().train()
        finally:
            if hasattr(self, "hosted"):
                self.hosted.close()

    def _prepare_policy(self, saved: list[int]) -> None:
        config = self.config
        self.chat = HostedChat(think=config.rollout.think, prefill=config.hosted.prefill)
        self.hosted = HostedSampler(config.hosted, self.chat, self.folder, self.stop)

    def _actor(self) -> Actor:
        return Actor(self.hosted, UNLIMITED, device=f"hosted at {self.config.hosted.host}", parameters=0)

    def _loop(self) -> RunFinished | None:
        try:
            return super()._loop()
        except BudgetSpentError as error:
            done, number = len(results(self.folder, self.config)), len(suites_of(self.config))
            self._tell_account()
            return self.reporter.finished(
                "budget",
                f"Stopped with {done} of {number} suites played: {error}. What was answered is kept in the run's "
                "folder: with a higher limit, --resume asks only for the rest.",
            )
        except (HostedError, RefusedError):
            self._tell_account()
            raise

    def _examine(self, suite: Suite, iteration: int) -> tuple[Evaluation, dict[str, float]]:
        event, values = super()._examine(suite, iteration)
        return event, values | self.hosted.totals.metrics()

    def _interrupted(self) -> RunFinished:
        if hasattr(self, "hosted"):
            self._tell_account()
        return super()._interrupted()

    def _tell_account(self) -> None:
        """What it took so far, for a run that ends inside a suite."""
        self.reporter.tick()
        self.journal.write(self.reporter.metrics(self.hosted.totals.metrics()))
