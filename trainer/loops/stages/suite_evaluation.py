"""Evaluation of a run: plays its suites and writes their results and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from trainer.evaluation import suite_runner
from trainer.evaluation.reference_play import ReferencePlayError, reference_success
from trainer.evaluation.suites import Suite, get_suites
from trainer.loops.session import RunSession
from trainer.loops.stages.rollout_stage import RolloutStage


class SuiteEvaluator:
    """Plays the suites of a run at its current iteration.

    Args:
        session: the run.
        rollouts: plays the suites.
        completed: names of suites that an earlier attempt completed; they are not played again.
        extra_metrics: further metrics to log with each suite.
    """

    def __init__(
        self,
        session: RunSession,
        rollouts: RolloutStage,
        completed: Collection[str] = (),
        extra_metrics: Callable[[], dict[str, float]] = dict,
    ) -> None:
        self.session, self.rollouts = session, rollouts
        self.completed, self.extra_metrics = completed, extra_metrics
        self._references: dict[str, dict[str, float]] = {}

    def is_due(self) -> bool:
        """True if the settings evaluate after the current iteration."""
        return suite_runner.is_due(self.session.config, self.session.progress.iteration)

    def is_overdue(self) -> bool:
        """True if an earlier attempt ended before the evaluation that was due at its checkpoint."""
        progress = self.session.progress
        return progress.evaluated < progress.iteration and self.is_due()

    def run(self) -> None:
        """Play every suite that is not completed; the first one's success rate is the run's."""
        session, progress, began = self.session, self.session.progress, time.monotonic()
        iteration, final = progress.iteration, progress.iteration == session.reporter.iterations
        due = [suite for suite in get_suites(session.config) if suite.name not in self.completed]
        for number, suite in enumerate(due):
            played = self.rollouts.play_suite(suite, iteration, part=(number, len(due)))
            trajectories = self.rollouts.complete(played)
            event, metrics = suite_runner.summarize(suite, iteration, trajectories, final=final)
            metrics |= self._reference(suite) | self.extra_metrics()
            if suite.number == 0:
                progress.last_success = event.success
                if progress.first_success is None:
                    progress.first_success = event.success
                if iteration == 0 and session.config.warmup_steps:
                    progress.warmed_up_success = event.success
            if suite is due[-1]:
                progress.evaluated = iteration
                metrics["time/evaluate"] = time.monotonic() - began
            session.journal.write(event, session.reporter.metrics(metrics))

    def _reference(self, suite: Suite) -> dict[str, float]:
        """Measure success of optimal and random play: the same at every evaluation, so played once per attempt."""
        if suite.name not in self._references:
            self._references[suite.name] = self._play_reference(suite)
        return self._references[suite.name]

    def _play_reference(self, suite: Suite) -> dict[str, float]:
        try:
            return reference_success(suite, self.session.check_stop)
        except ReferencePlayError as error:
            self.session.warn(f"There is no best and random play of {suite.name} to compare with: {error}.")
            return {}
