"""Supervision of a run on a worker: trainer process, journal, requests of users, release."""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from envs.text_roles import TextRole
from trainer.config.dotted import value_at
from trainer.config.removed import without_removed
from trainer.journal import source_commit
from trainer.journal.protocol import (
    BAD_CONFIGURATION,
    COMPLETED,
    CONFIG_FILE,
    INTERRUPTED,
    JOURNAL_FILE,
    MODEL_FOLDER,
)
from trainer.models import store
from webapp.core import env
from webapp.core.database import database_now
from webapp.core.publisher import publisher
from webapp.ingest.rebuild import do_recover_cut_journal
from webapp.ingest.tailer import JournalMismatch, JournalTailer
from webapp.runs import actions, object_storage, setting_changes, token_subscriptions
from webapp.runs.inputs import allowed_inputs, folders, run_models, stored_models
from webapp.runs.models import Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.worker import claims, failure_messages, hardware, heartbeat, parent_guard
from webapp.worker.files import model_input
from webapp.worker.files.checkpoint_sync import CheckpointSync
from webapp.worker.files.run_copy import CopyUnavailable, RunCopy
from webapp.worker.run_lease import LeaseLost, RunLease
from webapp.worker.run_limits import ExceededLimit, LimitMonitor, configured_limits
from webapp.worker.sandbox import named_paths, tcp_ports, trainer_sandbox
from webapp.worker.trainer_environment import thread_limit, trainer_environment, uses_ray
from webapp.worker.trainer_process import TrainerProcess, trainer_command

logger = logging.getLogger(__name__)

Command = Callable[[RunFiles], Sequence[str]]

END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that ask a trainer to end. One that is still starting has no handler yet: the signal kills it."""


@dataclass(frozen=True)
class Intervals:
    """Intervals and timeouts of the supervisor, in seconds."""

    tick: float = 0.08  # between two reads of the journal
    control: float = 0.5
    renew: float = 5.0
    stop_timeout: float = field(default_factory=env.stop_seconds)
    orphan_timeout: float = parent_guard.ORPHAN_TIMEOUT
    retry: float = 1.0
    limits: float = 10.0  # between two comparisons with the limits of a run
    requests: float = 2.0  # between two deliveries of requested settings
    copy_timeout: float = 600.0

    def sleep(self, began: float) -> None:
        """Sleep until a tick after `began`, but at least an eighth of a tick."""
        time.sleep(max(self.tick / 8, began + self.tick - time.monotonic()))


def serve(worker_name: str) -> str:
    """Claim and supervise the first waiting run that fits the worker. Returns the outcome as text."""
    now = database_now()
    worker = Worker.objects.filter(name=worker_name).first()
    if worker is None:  # before its first heartbeat; the reaper wakes it again
        return "this worker has not sent a heartbeat yet"
    worker = actions.do_record_heartbeat(worker_name, now, **heartbeat.measured())
    return supervise(claims.do_claim_next(worker, now))


def supervise(claimed: Run | None, *, command: Command | None = None, intervals: Intervals | None = None) -> str:
    """Supervise a claimed run until it ends or is given back. Returns the outcome as text."""
    if claimed is None:
        return "nothing to do"
    command = command or partial(trainer_command, processes=_processes(claimed))
    return Supervisor(claimed, command, intervals or Intervals()).run()


def _processes(run: Run) -> int:
    """Return the number of learners on the GPUs that are reserved for the run on this machine.

    1 if the settings name actors, or if one engine takes all GPUs.
    """
    config = without_removed(run.config)
    gpus = value_at(config, "cluster.resources.rollout_gpus") or 1
    split = value_at(config, "engine.name") == "vllm" and gpus > 1
    return 1 if split or uses_ray(run.config) else max(1, len(run.reserved))


class TrainerCannotStart(Exception):
    """The trainer's process cannot be started. The message is for the run's page."""


class Supervisor:
    """Supervision of one claimed run."""

    def __init__(self, run: Run, command: Command, intervals: Intervals) -> None:
        self.claimed = run
        self.command, self.intervals = command, intervals
        self.files = RunFiles(run.folder)
        self.lease = RunLease(
            run,
            refresh_interval=intervals.control,
            renew_interval=intervals.renew,
            retry_interval=intervals.retry,
        )
        self._parent = os.getppid()
        self._subscribed: list[str] = []
        self._requests: list[dict[str, Any]] | None = None
        self._exceeded: ExceededLimit | None = None
        self.copy: RunCopy | None = None
        storage = object_storage.configured_storage()
        if storage is not None:
            self.copy = RunCopy(
                self.lease,
                self.files,
                CheckpointSync(run.slug, run.folder, storage),
                poll_interval=intervals.tick,
                retry_interval=intervals.retry,
            )

    def run(self) -> str:
        """Supervise until the run ends, is given back, or the lease is lost. Returns the outcome as text."""
        trainer: TrainerProcess | None = None
        try:
            trainer = self._start()
            return self._finish(trainer, self._monitor(trainer))
        except (TrainerCannotStart, CopyUnavailable, JournalMismatch) as error:
            return self.lease.release(Run.State.FAILED, str(error))
        except LeaseLost:
            logger.warning("Run %s: the lease was lost; its trainer is killed.", self.claimed.slug)
            return "lease lost"
        except Exception:
            self.lease.release(Run.State.FAILED, failure_messages.INTERNAL_ERROR)
            raise
        finally:
            if trainer is not None and trainer.exit_status() is None:
                trainer.kill()
            self.files.inside.remove(trainer_sandbox.TEMPORARY)
            if self.copy is not None:
                self.copy.cancel()

    def _start(self) -> TrainerProcess:
        try:
            if parent_guard.kill_stale_trainer(self.files.pid, self.intervals.orphan_timeout):
                logger.warning("Run %s: killed the trainer of an earlier supervisor.", self.claimed.slug)
            refusal = self.lease.persist(lambda: allowed_inputs.refusal(self.claimed))
            if not refusal or self.files.inside.has(JOURNAL_FILE):  # what an earlier trainer wrote is kept either way
                self._prepare()
            if refusal:
                raise TrainerCannotStart(f"This run is not allowed on this site: {refusal}.")
            run, self.limits = self.claimed, configured_limits()
            gpus = hardware.environment(run.reserved) if run.worker and run.worker.gpus else {}
            environment = thread_limit(run.worker.slots if run.worker else 1) | trainer_environment(run.config)
            environment |= gpus | {MODEL_FOLDER: self._model_folder(), source_commit.VARIABLE: source_commit.current()}
            prefix, variables = self._sandbox(environment)
            return TrainerProcess(
                [*prefix, *self.command(self.files)],
                self.files,
                self._on_tokens,
                self._on_progress,
                environment=environment | variables,
                file_bytes=self.limits.file,
            )
        except (OSError, ValueError, parent_guard.StaleTrainer) as error:
            raise TrainerCannotStart(failure_messages.cannot_start(error)) from error

    def _sandbox(self, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the beginning of the trainer's command, which restricts it, and the variables that it then needs."""
        config, texts = self.claimed.config, allowed_inputs.texts(self.claimed.config)
        commands = [text.text for text in texts if text.role is TextRole.COMMAND]
        urls = [text.text for text in texts if text.role is TextRole.URL]
        listed = [*folders.DATA.listed, *folders.MODELS.listed, store.models_folder()]
        return trainer_sandbox.command_prefix(
            Path(settings.ECHOSCOPE_DATA_DIR),
            self.files.folder,
            environment,
            readable=[*listed, *(path for command in commands for path in named_paths.paths_in(command))],
            ports=tcp_ports.of_run(
                config, urls, environment, single=_processes(self.claimed) == 1 and not uses_ray(config)
            ),
        )

    def _model_folder(self) -> str:
        """Return the folder of another run's checkpoint that this run begins with; empty for any other model."""
        model = str((self.claimed.config.get("policy") or {}).get("model", ""))
        if (allowed_inputs.is_hub_id(model) or stored_models.stored_name(model)) and Path(model).exists():
            raise TrainerCannotStart(
                f"This run is not allowed on this site: policy.model: {model} is the name of a model, but also a path "
                "on the worker, which the trainer would read instead."
            )
        named = run_models.parse(model)
        if named is None:
            return ""
        source = self.lease.persist(lambda: Run.objects.filter(slug=named.slug).first())
        try:
            return str(model_input.provide(source, named, self.files, self._keep_alive))
        except model_input.ModelUnavailable as error:
            raise TrainerCannotStart(f"The run could not be started: policy.model: {error}.") from error

    def _keep_alive(self) -> None:
        """Renew the lease during long work. Raises LeaseLost."""
        if self.lease.is_due():
            self.lease.refresh()

    def _prepare(self) -> None:
        """Create the folder and the configuration, and ingest what an earlier trainer wrote."""
        self.files.folder.mkdir(parents=True, exist_ok=True)
        if self.copy is not None:
            self.copy.make_current()
        config = yaml.safe_dump(without_removed(self.claimed.config), sort_keys=False, allow_unicode=True)
        self.files.inside.replace(CONFIG_FILE, config.encode())
        token_subscriptions.write(self.files.folder, [])
        self.tailer = JournalTailer(self.claimed)
        self.lease.persist(self.tailer.drain)
        if self.tailer.mismatch is not None:
            self._recover_journal(self.tailer.mismatch)
        self.lease.refresh()

    def _recover_journal(self, mismatch: JournalMismatch) -> None:
        """Rebuild the run's tables from a journal that lost its end. Raises the mismatch if it is another journal."""
        if not mismatch.same_run:
            raise mismatch
        self.tailer = JournalTailer(self.lease.persist(lambda: do_recover_cut_journal(self.claimed)))
        self.lease.persist(self.tailer.drain)

    def _monitor(self, trainer: TrainerProcess) -> int:
        """Ingest the journal and apply requests until the trainer has ended. Returns its exit status."""
        gc.collect()
        gc.freeze()  # a collection of the loaded modules would block the stream for 0.2 s
        monitor = LimitMonitor(self.limits, self.files.folder, trainer.pid, trainer.tag)
        limits_due = time.monotonic() + self.intervals.limits
        requests_due = 0.0
        while True:
            status = trainer.exit_status()  # before the ingest: _finish reads the rest
            if status is not None:
                return status
            began = time.monotonic()
            is_due = self.lease.is_due()
            if is_due:  # before the ingest: after a suspension, another supervisor may have the run
                self.lease.refresh()
            self.lease.attempt(self.tailer.step)
            if self.tailer.mismatch is not None:
                raise self.tailer.mismatch
            if is_due:
                self._write_subscriptions()
                self._apply_request(trainer)
                if self.copy is not None:
                    self.copy.poll()
            if began >= requests_due:
                requests_due = began + self.intervals.requests
                self._deliver_requests()
            if began >= limits_due:
                limits_due = began + self.intervals.limits
                self._enforce_limits(monitor, trainer)
            self.intervals.sleep(began)

    def _enforce_limits(self, monitor: LimitMonitor, trainer: TrainerProcess) -> None:
        """End a trainer that exceeds a limit."""
        self._exceeded = self._exceeded or monitor.exceeded()
        if self._exceeded is None:
            return
        logger.warning("Run %s: %s", self.claimed.slug, self._exceeded.message)
        if self._exceeded.gentle:
            trainer.stop(self.intervals.stop_timeout)
        else:
            trainer.kill()

    def _apply_request(self, trainer: TrainerProcess) -> None:
        if self.lease.request == Run.Request.CANCEL:
            trainer.kill()
        elif self.lease.request or self.lease.worker_stopping or os.getppid() != self._parent:
            trainer.stop(self.intervals.stop_timeout)

    def _write_subscriptions(self) -> None:
        subscribed = token_subscriptions.subscribed(self.claimed.slug)
        if subscribed == self._subscribed:
            return
        self._subscribed = subscribed
        try:
            token_subscriptions.write(self.files.folder, subscribed)
        except OSError as error:  # a full disk must not end the training because of a live view
            logger.warning("Run %s: the file of watched trajectories cannot be written: %s", self.claimed.slug, error)

    def _deliver_requests(self) -> None:
        """Write the requested changes of settings that the trainer has not answered where it reads them."""
        done, requests = self.lease.attempt(lambda: setting_changes.pending_requests(self.claimed))
        if not done or requests == self._requests:
            return
        try:
            setting_changes.deliver(self.files.inside, requests or [])
        except OSError as error:  # a full disk: the next round tries again
            logger.warning("Run %s: the requested settings cannot be written: %s", self.claimed.slug, error)
        else:
            self._requests = requests

    def _on_tokens(self, trajectory: str, turn: int, text: str) -> None:
        publisher().tokens(self.claimed.slug, trajectory, turn, text)

    def _on_progress(self, phase: dict[str, Any]) -> None:
        publisher().progress(self.claimed.slug, phase)

    def _finish(self, trainer: TrainerProcess, status: int) -> str:
        """Ingest the rest of the journal after the trainer's end, and release the run in the resulting state."""
        self.lease.refresh()
        self.lease.persist(self.tailer.drain)
        if self.tailer.mismatch is not None:
            raise self.tailer.mismatch
        self.lease.refresh()
        if self.copy is not None and self.lease.request != Run.Request.CANCEL:
            self.copy.finish(self.intervals.copy_timeout)
        if self.lease.request == Run.Request.CANCEL:
            return self.lease.release(Run.State.CANCELLED)
        if status == COMPLETED:
            return self._complete()
        if self._exceeded is not None:
            run = self.lease.persist(lambda: Run.objects.get(pk=self.claimed.pk))
            return self.lease.release(Run.State.FAILED, failure_messages.limit(run, self._exceeded), trainer.log_tail())
        if status == INTERRUPTED or -status in END_SIGNALS:
            return self.lease.release(self._interrupted_state())
        return self._fail(status, trainer.log_tail())

    def _complete(self) -> str:
        """Release a run whose trainer exited with 0: finished only if its journal was read to the closing event."""
        run = self.lease.persist(lambda: Run.objects.get(pk=self.claimed.pk))
        if run.end_reason:
            return self.lease.release(Run.State.FINISHED)
        return self.lease.release(Run.State.FAILED, failure_messages.end_not_read(run))

    def _interrupted_state(self) -> Run.State:
        match self.lease.request:
            case Run.Request.PAUSE:
                return Run.State.PAUSED
            case Run.Request.STOP:
                return Run.State.STOPPED
        return Run.State.QUEUED  # no request: the worker stops, or the trainer was signalled by hand

    def _fail(self, status: int, log_tail: str) -> str:
        """Release a run whose trainer rejected its configuration, failed, or was killed."""
        if status == BAD_CONFIGURATION:
            message = failure_messages.invalid_configuration(log_tail)
            return self.lease.release(Run.State.FAILED, message, log_tail)
        if status > 0 and (message := failure_messages.full_disk(self.files.folder, status, log_tail)):
            return self.lease.release(Run.State.FAILED, message, log_tail)
        if status < 0 and self.lease.request:  # it did not stop in time and was killed
            return self.lease.release(self._interrupted_state())
        run = self.lease.persist(lambda: Run.objects.get(pk=self.claimed.pk))
        if status < 0 and self.lease.persist(lambda: actions.do_count_crash(run)) <= actions.MAX_CRASHES:
            signal_name = failure_messages.signal_name(status)
            logger.warning("Run %s: the trainer was killed by %s; restarting it.", run.slug, signal_name)
            return self.lease.release(Run.State.QUEUED)
        return self.lease.release(Run.State.FAILED, failure_messages.crash(run, status, log_tail), log_tail)
