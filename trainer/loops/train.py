"""The loop: rollout → filter → advantages and update → evaluate → checkpoint, told event by event to the journal.

Each step is another module's; here stand their order, the clock, and what happens when the run is asked to stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from trainer.config import rewind
from trainer.config.run import POCKET, RunConfig
from trainer.diagnostics.compute import filter_metrics, first_thoughts, reasoning_metrics, rollout_metrics
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.distributed.control_channel import RankLostError
from trainer.distributed.group import LearnerSpec, ProcessGroup, SingleProcess
from trainer.engines.hosted.hosted_client import HostedError, RefusedError
from trainer.engines.sampler import Actor, DivergedError
from trainer.engines.sampler_factory import in_chunks, make_sampler
from trainer.evaluation import suite_runner
from trainer.evaluation.suites import Suite, suites_of
from trainer.imitation import warmup
from trainer.imitation.demonstration_files import NoSolverError
from trainer.journal.events import (
    CheckpointRemoved,
    CheckpointSaved,
    Evaluation,
    GroupsScored,
    Notice,
    Rewound,
    RunFinished,
)
from trainer.journal.reader import count_attempts
from trainer.journal.writer import Journal
from trainer.learner.batch_selection import select_batch
from trainer.learner.learner import Learner
from trainer.loops import checkpoints, trackers
from trainer.loops.checkpoints import Progress
from trainer.loops.reporter import PhaseTimer, Reporter
from trainer.memory import oom, preflight
from trainer.memory.estimate import SMALL
from trainer.policy.chat_format import ChatFormat, TemplateError
from trainer.policy.load import ModelError, Policy, describe_device, load, pick_device
from trainer.rollout import distributed
from trainer.rollout.environment_mix import shares_of, success_by_environment, train_plans
from trainer.rollout.episode import ContextError
from trainer.rollout.runner import EnvironmentsFailedError, Interrupted, RolloutRequest, RolloutRunner
from trainer.rollout.token_recorder import TokenRecorder
from trainer.rollout.token_stream import TokenStream, TokenStreamListener
from trainer.rollout.trajectory import Trajectory, collate

BAD_SETTINGS = (ModelError, TemplateError, ContextError, NoSolverError, RefusedError, trackers.MissingTrackerError)
"""What a run raises when its settings ask for something that cannot be done. The messages are made for people."""


class TrainRun:
    """One run in one folder; `train()` takes it to its end or to where it was asked to stop.

    Args:
        config: what to do.
        folder: where journal, checkpoints and caches lie; a folder with a checkpoint is continued.
        cache: where warmed-up policies are kept between runs.
        stop: asked between turns and steps; once it says True the run checkpoints and ends.
        team: the processes that work on it; this is the main one of them.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        cache: Path,
        stop: Callable[[], bool] = lambda: False,
        team: ProcessGroup | None = None,
    ) -> None:
        self.asked, self.folder, self.cache, self.stop = config, folder, cache, stop
        self.team: ProcessGroup = team or SingleProcess()
        self.config = config  # what is in force: other than what was asked for after a rewind
        self.journal = Journal(folder)
        self.trap = EchoTrap(config.echo_trap)
        self.progress = Progress(config_digest=config.digest(), echo_trap=self.trap.state_dict())
        self.reporter = Reporter(self.journal, self.progress, config.iterations)
        self.laps = PhaseTimer()
        self.evaluated_suites: list[str] = []  # of an evaluation that an earlier attempt began
        self._told_of_failures = False

    def train(self) -> RunFinished:
        """Play, learn and evaluate until done. Returns the closing event, already in the journal."""
        try:
            try:
                self.team.guard(lambda reason: self.journal.write(self.reporter.finished("error", reason)))
                trackers.attach(self.journal, self.config.trackers, self.folder)
                with oom.oom_errors():
                    self._prepare()
                    while (end := self._loop()) is None:
                        self._rewind()
                        self._prepare()
            except Interrupted:
                end = self._interrupted()
        except Exception as error:
            spoken = isinstance(
                error, (*BAD_SETTINGS, DivergedError, HostedError, RankLostError, EnvironmentsFailedError)
            )
            message = str(error) if spoken else f"{type(error).__name__}: {error}"
            self.journal.write(self.reporter.finished("error", message))
            raise
        else:
            self.journal.write(end)
            return end
        finally:
            if hasattr(self, "player"):
                self.player.close()
            self.team.close()
            self.journal.close()

    # -- before the first iteration ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.config.policy.threads:
            torch.set_num_threads(self.config.policy.threads)
        saved = checkpoints.checkpoint_iterations(self.folder)
        attempt = 1 + count_attempts(self.folder)
        if saved:
            self.progress = checkpoints.load_progress(self.folder, saved[-1])
            self.trap.load_state_dict(self.progress.echo_trap)
            self.config = rewind.settings_after_rewind(self.asked, self.progress.rewinds)
            if self.progress.config_digest != self.asked.digest():
                self.journal.write(Notice(level="warning", message="The settings were changed since the last attempt."))
        self.reporter.resumes(self.progress)
        self.reporter.phase("load")
        self._prepare_policy(saved)
        self._prepare_learning(saved)
        if hasattr(self, "learner"):
            self.learner.oom_retry.on_retry = self._warn
        actor = self._actor()
        self.live = TokenStream(self.folder)
        self.record = TokenRecorder(self.config.journal, self.chat)
        player = RolloutRunner(
            config=self.config,
            chat=self.chat,
            sampler=actor.sampler,
            context=actor.context,
            emit=self.journal.write,
            stop=self.stop,
        )
        self.player = distributed.shard(player, self.team)
        self.journal.write(
            self.reporter.started(
                attempt,
                self.asked.title(),
                self.config,
                actor,
                processes=self.team.size,
                evaluated_suites=self.evaluated_suites,
            )
        )
        if biased := self.config.rollout.biased:
            message = (
                f"The importance ratio is biased by {', '.join(biased)}: tokens are never drawn that the update counts "
                "as possible. At their defaults nothing is left out."
            )
            self.journal.write(Notice(level="warning", message=message))

    def _prepare_policy(self, saved: list[int]) -> None:
        """Load the policy, as the newest checkpoint left it, and learn how its dialogues are framed."""
        self.policy = self._load_policy(saved)
        self.team.prepare(self._recipe(saved))
        self.chat = ChatFormat(self.policy.tokenizer, think=self.config.rollout.think)

    def _actor(self) -> Actor:
        """Who plays, once policy and learner are there."""
        return Actor(
            sampler=in_chunks(
                make_sampler(self.config, self.policy, self.chat.eos_id, self.folder), self.plan.rows, self._warn
            ),
            context=self.policy.context,
            device=describe_device(self.policy.model.device),
            parameters=self.policy.parameters,
        )

    def _recipe(self, saved: list[int]) -> LearnerSpec:
        """What the other processes make the same policy and learner of."""
        learns = self.config.kind == "train"
        return LearnerSpec(
            config=preflight.with_rows(self.config, self.plan),
            source=self._source(saved),
            reference=self._base() if learns and self._uses_reference(self.policy) else None,
            folder=self.folder,
            saved=saved[-1] if saved else None,
        )

    def _prepare_learning(self, saved: list[int]) -> None:
        """Make the learner, as the newest checkpoint left it."""
        reference = load(self._base(), self.config.policy) if self._uses_reference(self.policy) else None
        self.learner = Learner(self.config, self.policy, reference, self.team)
        if saved:
            self._take_up(saved[-1])

    def _take_up(self, iteration: int) -> None:
        """Give the learner what a checkpoint holds of it, and tell people what they should know about that."""
        for message in checkpoints.load_learner(self.folder, iteration, self.learner):
            self.journal.write(Notice(level="warning", message=message))

    def _base(self) -> Path | str:
        """Where the policy comes from before any training."""
        model = self.config.policy.model
        if model != POCKET:
            self.progress.base = self.progress.base or checkpoints.resolve(model)
            return self.progress.base
        progress = partial(self.reporter.phase, "warmup", unit="steps")

        def stoppable(done: int, total: int) -> None:
            progress(done, total)
            if self.stop():
                raise Interrupted

        return warmup.find_or_build(self.config.warmup, self.cache, stoppable)

    def _load_policy(self, saved: list[int]) -> Policy:
        device, source = pick_device(self.config.policy.device), self._source(saved)
        self.plan = preflight.check(self.config, str(source), device)
        if self.plan.warning:
            self._warn(self.plan.warning)
        return load(source, self.config.policy)

    def _warn(self, message: str) -> None:
        self.journal.write(Notice(level="warning", message=message))

    def _source(self, saved: list[int]) -> Path | str:
        """Where the policy comes from now."""
        adapted = self.config.lora.rank > 0  # then the checkpoint's adapters are put into the base, not its weights
        return checkpoints.path_of(self.folder, saved[-1]) if saved and not adapted else self._base()

    def _uses_reference(self, policy: Policy) -> bool:
        """Whether the initial policy is kept: for the KL penalty, or just to measure it where that costs little.

        Adapters need no second model: switched off, they leave the initial policy.
        """
        if self.config.lora.rank:
            return False
        return self.config.algorithm.kl_coef > 0 or policy.parameters < SMALL

    # -- the loop ---------------------------------------------------------------------------------------------------

    def _loop(self) -> RunFinished | None:
        """To the end, or to a collapse from which the run is to rewind: then None."""
        if self.progress.evaluated < self.progress.iteration and suite_runner.is_due(
            self.config, self.progress.iteration
        ):
            self._evaluate()
            if self.progress.iteration:
                self._checkpoint()  # so that it is not examined a second time
        rewinds = self.config.echo_trap.action == "rewind"
        if rewinds and self.progress.iteration == 0:
            self._checkpoint()  # so that there is always something to return to
        self.laps.start()
        while self.progress.iteration < self.config.iterations:
            if self.stop():
                raise Interrupted
            began = time.monotonic()
            collapsed = self._iterate(self.progress.iteration + 1)
            self.reporter.iteration_took(time.monotonic() - began)
            done = self.progress.iteration
            if collapsed and rewinds and self.progress.rewinds < self.config.echo_trap.max_rewinds:
                return None
            alarm_stops = collapsed and self.config.echo_trap.action != "none"
            if suite_runner.is_due(self.config, done) or (alarm_stops and self.config.evaluation.prompts):
                with self.laps.part("evaluate"):
                    self._evaluate()
            if done % self.config.checkpoint.every == 0 or done == self.config.iterations or alarm_stops:
                with self.laps.part("checkpoint"):
                    self._checkpoint()
            if alarm_stops:
                again = f", after {self.progress.rewinds} rewinds" if rewinds else ""
                message = f"Stopped by the Echo Trap watch after iteration {done}{again}."
                return self.reporter.finished("echo_trap", message)
        return self.reporter.finished("completed", f"All {self.config.iterations} iterations are done.")

    def _iterate(self, iteration: int) -> bool:
        """One rollout and its update. Returns whether the Echo Trap watch now calls it a collapse."""
        config = self.config
        with self.laps.part("rollout"):
            trajectories = self._rollout(iteration)
        tokens = sum(t.tokens for t in trajectories)
        played = self._unbroken(trajectories)
        choice = select_batch(played, config.algorithm)
        self.journal.write(GroupsScored(iteration=iteration, groups=choice.scores))
        with self.laps.part("update"):
            self.reporter.phase("update", 0, len(choice.kept), unit="trajectories", iteration=iteration)
            batch = collate(
                choice.kept,
                self.learner.policy.pad_id,
                outcome=config.algorithm.reward_position == "outcome",
                weights=choice.weights,
            )
            values = rollout_metrics(played) | filter_metrics(choice.filtered) | self._reasoning(played)
            values |= success_by_environment(played, shares_of(config))
            values["rollout/failed_environments"] = float(len(trajectories) - len(played))
            values |= self.learner.update(batch, iteration) if choice.teaches else {"update/skipped": 1.0}
            self.player.sampler.weights_updated()
        advantages = self.learner.advantages if choice.teaches else None
        self.journal.write(*self.record.learned(trajectories, choice.kept, batch, advantages))
        self.progress.iteration = iteration
        self.progress.tokens += tokens
        values |= self.laps.finish()
        values["throughput/tokens_per_second"] = tokens / values["time/rollout"]
        alarm = self.trap.update(iteration, values)
        values |= self.trap.statistics()
        self.progress.echo_trap = self.trap.state_dict()
        self.reporter.tick()
        self.journal.write(self.reporter.metrics(values), *([alarm] if alarm else []))
        return alarm is not None and alarm.state == "trapped"

    def _rollout(self, iteration: int) -> list[Trajectory]:
        config = self.config
        plans = train_plans(config, shares_of(config), iteration)
        self.player.progress = self.reporter.watch("rollout", iteration, config.rollout.trajectories)
        request = RolloutRequest(plans, iteration, split="train", temperature=config.rollout.temperature)
        return self.player.play(request, partial(TokenStreamListener, self.live, self.chat))

    def _unbroken(self, trajectories: list[Trajectory]) -> list[Trajectory]:
        """Those that the environment did not break off. People are told once, and then by the metric."""
        broken = [t for t in trajectories if t.failed]
        if broken and not self._told_of_failures:
            self._told_of_failures = True
            message = (
                f"{len(broken)} of {len(trajectories)} trajectories were broken off and are left out of everything "
                f"that is counted and learned; the first one because {broken[0].error}"
            )
            self.journal.write(Notice(level="warning", message=message))
        return [t for t in trajectories if not t.failed]

    def _reasoning(self, trajectories: list[Trajectory]) -> dict[str, float]:
        first = first_thoughts(trajectories)
        return reasoning_metrics(self.learner.cross_scores(*first)) if first else {}

    # -- evaluation, checkpoints, the end ---------------------------------------------------------------------------

    def _evaluate(self) -> None:
        """Play every suite to its end; the run's own one is the success that the run is known by."""
        iteration, began = self.progress.iteration, time.monotonic()
        due = [suite for suite in suites_of(self.config) if suite.name not in self.evaluated_suites]
        for suite in due:
            event, values = self._examine(suite, iteration)
            if suite.number == 0:
                self.progress.last_success = event.success
                if self.progress.first_success is None:
                    self.progress.first_success = event.success
            if suite is due[-1]:
                self.progress.evaluated = iteration
                values["time/evaluate"] = time.monotonic() - began
            self.reporter.tick()
            self.journal.write(event, self.reporter.metrics(values))

    def _examine(self, suite: Suite, iteration: int) -> tuple[Evaluation, dict[str, float]]:
        """Play one suite. Returns what there is to tell about it."""
        plans = suite_runner.group_plans(suite.config, iteration, suite.number)
        self.player.progress = self.reporter.watch("evaluate", iteration, sum(len(plan.members) for plan in plans))
        request = RolloutRequest(
            plans, iteration, split="eval", temperature=suite.config.evaluation.temperature, suite=suite.name
        )
        trajectories = self.player.play(request, partial(TokenStreamListener, self.live, self.chat))
        self.journal.write(*self.record.evaluated(trajectories))
        final = iteration == self.reporter.iterations
        return suite_runner.summarize(suite, iteration, self._unbroken(trajectories), final=final)

    def _checkpoint(self) -> None:
        self.reporter.phase("checkpoint")
        self.reporter.tick()
        folder = checkpoints.save(self.folder, self.learner, self.progress)
        self.journal.write(
            CheckpointSaved(
                iteration=self.progress.iteration,
                path=str(folder.relative_to(self.folder)),
                bytes=checkpoints.size(folder),
            )
        )
        for iteration in checkpoints.prune(self.folder, self.config.checkpoint.keep, self._sound()):
            self.journal.write(CheckpointRemoved(iteration=iteration))

    def _rewind(self) -> None:
        """Make the last sound checkpoint the newest one; what is prepared next goes on from it as a new attempt."""
        back = self._sound()
        assert back is not None, "a run that may rewind saves a checkpoint before its first iteration"
        self._leave()
        self.reporter.tick()
        done, seconds = self.progress.iteration, self.progress.seconds
        gone = checkpoints.drop_after(self.folder, back)
        progress = checkpoints.load_progress(self.folder, back)
        progress.rewinds, progress.seconds = self.progress.rewinds + 1, seconds
        checkpoints.update_progress(self.folder, progress)
        changes = rewind.changes_as_text(self.asked, rewind.settings_after_rewind(self.asked, progress.rewinds))
        said = ", ".join(f"{name} = {value}" for name, value in changes.items())
        message = (
            f"Collapsed by iteration {done}: rewind {progress.rewinds} of {self.asked.echo_trap.max_rewinds}, back to "
            f"iteration {back}, on with {said or 'the same settings'} and other initial states."
        )
        self.journal.write(
            Rewound(number=progress.rewinds, from_iteration=done, to_iteration=back, changes=changes),
            Notice(level="warning", message=message),
            *(CheckpointRemoved(iteration=iteration) for iteration in gone),
        )

    def _sound(self) -> int | None:
        """The checkpoint to return to after a collapse; without rewinds one is kept while there is unease."""
        if self.config.echo_trap.action == "rewind":
            return checkpoints.last_safe(self.folder, self.trap.sound_until(self.progress.iteration))
        return checkpoints.last_safe(self.folder) if self.trap.state != "healthy" else None

    def _leave(self) -> None:
        """Let go of the model and of what plays beside this process."""
        if hasattr(self, "player"):
            self.player.close()
            del self.player, self.learner, self.policy

    def _interrupted(self) -> RunFinished:
        """Asked to stop: what was learnt so far is kept; the iteration being played is played again on resume."""
        done = self.progress.iteration
        if not hasattr(self, "learner"):
            return self.reporter.finished("interrupted", "Stopped while preparing; nothing was lost.")
        self._checkpoint()
        return self.reporter.finished("interrupted", f"Stopped after iteration {done}; resume continues at {done + 1}.")
