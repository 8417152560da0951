"""Session of a run: its folder, journal, progress and closing event, shared by all loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from trainer.cluster.errors import ClusterError, LearnerLostError
from trainer.config import planned_rewinds
from trainer.config.run import RunConfig
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.engines.hosted.hosted_client import HostedError, RefusedError
from trainer.engines.sampler import DivergedError
from trainer.imitation.demonstration_files import NoSolverError
from trainer.journal.events import CheckpointRemoved, Notice, RunFinished
from trainer.journal.reader import as_event, count_attempts, count_rewinds
from trainer.journal.writer import Journal
from trainer.loops import trackers
from trainer.loops.reporter import PhaseTimer, Reason, Reporter
from trainer.loops.stages import checkpoints
from trainer.loops.stages.checkpoints import Progress
from trainer.loops.system_sampler import SystemSampler
from trainer.memory import oom
from trainer.memory.gpu_usage import reserved_gpu_bytes
from trainer.metrics.timeline import Timeline
from trainer.policy.chat_format import TemplateError
from trainer.policy.load import ModelError
from trainer.rollout.episode import ContextError
from trainer.rollout.runner import EnvironmentsFailedError, Interrupted

BAD_SETTINGS = (ModelError, TemplateError, ContextError, NoSolverError, RefusedError, trackers.MissingTrackerError)
"""Errors of impossible settings. The messages are written for users."""
EXPLAINED_ERRORS = (*BAD_SETTINGS, DivergedError, HostedError, ClusterError, EnvironmentsFailedError)
"""Errors with a message that explains the end of the run by itself."""
MAX_LOSSES = 3
"""Number of learners that a run may lose since its newest checkpoint; more losses indicate a systematic fault."""


class RunSession:
    """State that every loop needs: settings, journal, progress, reports, stop requests and resources to close.

    Args:
        config: requested settings.
        folder: folder for journal, checkpoints and caches; a run with a checkpoint there is continued.
        cache: folder of warmed-up policies, shared by runs.
        stop: polled between turns and steps; once it returns True the run saves a checkpoint and ends.
    Attributes:
        requested: settings as requested; `config` contains the current ones, which differ after a rewind or change.
        checkpoint: iteration of the checkpoint from which this attempt continues, None at the beginning.
        on_interrupt: ends the run after a stop request; a loop replaces it once there is something to save.
        end: the closing event, None before the end.
    """

    def __init__(self, config: RunConfig, folder: Path, cache: Path, stop: Callable[[], bool]) -> None:
        self.requested = self.config = self._begun_with = config
        self.folder, self.cache, self.stop = folder, cache, stop
        self.journal = Journal(folder)
        self._digest = config.model_copy(update={"changes": {}, "rewinds": {}}).digest()
        self.progress = self._new_progress()
        self.reporter = Reporter(self.journal, self.progress, config.iterations, config)
        self.timeline = Timeline()
        self.timer = PhaseTimer(self.timeline)
        reserved = None if config.cluster.learners else reserved_gpu_bytes
        self.system = SystemSampler(folder, self.timeline, reserved=reserved)
        self.attempt = 0
        self.checkpoint: int | None = None
        self.end: RunFinished | None = None
        self.on_interrupt: Callable[[], None] = self._stopped_while_preparing
        self._losses: tuple[int | None, int] = (None, 0)  # newest checkpoint, and number of learners lost since then
        self._resources = ExitStack()
        self._warned: set[str] = set()

    def resume(self) -> None:
        """Begin an attempt from the newest checkpoint, or from the beginning if there is none."""
        if self.config.policy.threads:
            torch.set_num_threads(self.config.policy.threads)
        self.attempt = 1 + count_attempts(self.folder)
        checkpoints.drop_superseded(self.folder)
        self.checkpoint = self._newest_checkpoint()
        if self.checkpoint is None:
            self.progress = self._new_progress()
        else:
            self.progress = checkpoints.load_progress(self.folder, self.checkpoint)
            if self.progress.config_digest != self._digest:
                self.warn("The settings were changed since the last attempt.")
            self._report_rewind()
        self.config = self._begun_with = self.settings_at(self.progress.iteration + 1)
        self.reporter.resume(self.progress)
        self.reporter.phase("load")

    def _report_rewind(self) -> None:
        """Write the events of the rewind to this checkpoint, unless an earlier process did before it was killed."""
        if self.progress.unreported and count_rewinds(self.folder) < self.progress.rewinds:
            self.journal.write(*map(as_event, self.progress.unreported))
        self.progress.unreported = []

    def settings_at(self, iteration: int, progress: Progress | None = None) -> RunConfig:
        """Return the settings that hold at an iteration, after planned and requested changes and all rewinds.

        Args:
            progress: of an attempt that follows; by default the present attempt's progress.
        """
        now = progress or self.progress
        plans = {
            "changes": self.requested.changes | now.changes,
            "rewinds": self.requested.rewinds | now.rewinds_by_hand,
        }
        requested = self.requested
        if any(plan != getattr(requested, name) for name, plan in plans.items()):
            requested = requested.model_copy(update=plans)
        return requested.settings_at(iteration, now.rewinds, planned_rewinds.numbers(now.rewinds_by_hand))

    def has_changed(self, iteration: int) -> bool:
        """True if the settings that hold at an iteration are not those with which this attempt began."""
        return self.settings_at(iteration) != self._begun_with

    def _new_progress(self) -> Progress:
        """Return the progress of a run that has done nothing yet."""
        trap_state, first = EchoTrap().state_dict(), -self.requested.warmup_steps
        return Progress(
            iteration=first,
            evaluated=first - 1,
            config_digest=self._digest,
            echo_trap=trap_state,
        )

    def recover(self, error: LearnerLostError) -> None:
        """Release the remains of an attempt that lost a learner, so that another one can begin.

        Raises:
            LearnerLostError: the same error, after several losses since the newest checkpoint.
        """
        newest, _ = checkpoints.newest_sound(self.folder)
        losses = self._losses[1] + 1 if self._losses[0] == newest else 1
        self._losses = newest, losses
        if losses > MAX_LOSSES:
            raise error
        where = "from the beginning" if newest is None else f"from the checkpoint of iteration {newest}"
        message = str(error)
        self.warn(f"{message[0].upper()}{message[1:]}. The run starts its learners again and continues {where}.")
        self.release()

    def _newest_checkpoint(self) -> int | None:
        """Find the newest sound checkpoint; damaged ones are set aside and reported. Raises ModelError if all are."""
        newest, damaged = checkpoints.newest_sound(self.folder)
        for iteration, problem in damaged.items():
            kept = checkpoints.set_aside(self.folder, iteration).relative_to(self.folder)
            self.warn(f"{problem[0].upper()}{problem[1:]}. It is kept as {kept} and not used.")
            self.journal.write(CheckpointRemoved(iteration=iteration))
        if damaged and newest is None:
            raise ModelError(
                f"No checkpoint of this run can be read: {'; '.join(damaged.values())}. They were set aside: resume "
                "once more to train from the beginning, or restore the files from a backup first."
            )
        return newest

    def started(self, device: str, parameters: int, evaluated_suites: list[str] | None = None) -> None:
        """Write the opening event of the attempt.

        Args:
            device: description of the sampling device.
            parameters: number of the policy's parameters; 0 if unknown.
            evaluated_suites: suites of the evaluation at this iteration that an earlier attempt completed.
        """
        self.journal.write(
            self.reporter.started(
                self.attempt,
                self.requested.title(),
                self.config,
                device=device,
                parameters=parameters,
                evaluated_suites=evaluated_suites or [],
            )
        )

    def warn(self, message: str, once: str = "") -> None:
        """Write a warning to the journal; warnings with the same `once` key are written only the first time."""
        if once in self._warned:
            return
        self._warned |= {once} - {""}
        self.journal.write(Notice(level="warning", message=message))

    def inform(self, message: str) -> None:
        """Write a message that needs no action to the journal."""
        self.journal.write(Notice(level="info", message=message))

    def check_stop(self) -> None:
        """Raise Interrupted if a stop was requested."""
        if self.stop():
            raise Interrupted

    def on_close(self, close: Callable[[], None]) -> None:
        """Register a resource of the attempt; `release` closes resources in reverse order."""
        self._resources.callback(close)

    def release(self) -> None:
        """Close the attempt's resources and drop its learner, before another attempt or at the end."""
        self.on_interrupt = self._stopped_while_preparing
        self._resources.close()

    def finish(self, reason: Reason, message: str) -> None:
        """End the run; the closing event is written when the session closes."""
        self.end = self.reporter.finished(reason, message)

    @property
    def result(self) -> RunFinished:
        """The closing event of a finished session."""
        assert self.end is not None, "every loop ends its session"
        return self.end

    def _stopped_while_preparing(self) -> None:
        self.finish("interrupted", "Stopped while preparing; nothing was lost.")


@contextmanager
def run_session(config: RunConfig, folder: Path, cache: Path, stop: Callable[[], bool]) -> Iterator[RunSession]:
    """Open the session of one run, with the arguments of `RunSession`; the journal ends with its closing event.

    A stop request inside the block ends it in order. Any other exception is recorded in the journal and re-raised.
    """
    session = RunSession(config, folder, cache, stop)
    try:
        try:
            trackers.attach(session.journal, config.trackers, folder)
            session.system.start()
            with oom.oom_errors():
                yield session
        except Interrupted:
            session.on_interrupt()
    except Exception as error:
        message = str(error) if isinstance(error, EXPLAINED_ERRORS) else f"{type(error).__name__}: {error}"
        session.journal.write(session.reporter.finished("error", message))
        raise
    else:
        session.journal.write(session.result)
    finally:
        session.system.close()
        session.release()
        session.journal.close()
