"""One worker's care for one run: its lease, its trainer, its journal, what people ask of it, and its end.

How the process is handled is in child.py, what the journal means in ingest.py and rows.py, state changes in actions.py.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import yaml
from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, connection
from django.utils import timezone

from trainer.journal.protocol import BAD_CONFIGURATION, INTERRUPTED, JOURNAL_FILE
from webapp.core import ids
from webapp.core.publisher import publisher
from webapp.ingest.tailer import JournalTailer
from webapp.runs import actions, object_storage, token_subscriptions
from webapp.runs.launch import hosted_endpoints
from webapp.runs.models import Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.worker import claims, hardware, heartbeat, parent_guard
from webapp.worker.checkpoint_sync import CheckpointSync, SyncResult
from webapp.worker.trainer_process import TrainerProcess, trainer_command

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
FETCHES = 5
Command = Callable[[RunFiles], Sequence[str]]


@dataclass(frozen=True)
class Intervals:
    """How often the supervisor does what, in seconds."""

    tick: float = 0.08  # from one look at the journal to the next
    control: float = 0.5
    renew: float = 5.0
    stop_patience: float = float(os.environ.get("ECHOSCOPE_STOP_SECONDS", "120"))
    orphan_patience: float = 15.0
    retry: float = 1.0
    copy_patience: float = 600.0

    def rest(self, began: float) -> None:
        """Sleep until the next tick is due, at least a little: the look that `began` then may have taken its time."""
        time.sleep(max(self.tick / 8, began + self.tick - time.monotonic()))


def serve(worker_name: str) -> str:
    """What a worker does when it is woken up: the best run that waits and fits it. Returns what became of that."""
    now = timezone.now()
    worker = Worker.objects.filter(name=worker_name).first()
    if worker is None:  # its first heartbeat has not come through yet; the reaper wakes it again
        return "this worker is not known yet"
    worker = actions.do_record_heartbeat(worker_name, now, **heartbeat.measured())
    return supervise(claims.do_claim_next(worker, now))


def supervise(claimed: Run | None, *, command: Command | None = None, pace: Intervals | None = None) -> str:
    """Stay with a run whose lease was taken until it ends or is given back. Returns what became of it."""
    if claimed is None:
        return "nothing to do"
    return Supervisor(
        claimed, command or partial(trainer_command, processes=_processes(claimed)), pace or Intervals()
    ).run()


def _processes(run: Run) -> int:
    """One for each GPU that is its own."""
    return max(1, len(run.reserved))


class LeaseLost(Exception):
    """Somebody else may own the run now: nothing of it may be touched."""


class TrainerCannotStart(Exception):
    """The trainer's process cannot be started. The message is for the run's page."""


class Supervisor:
    """The care for one claimed run."""

    def __init__(self, run: Run, command: Command, pace: Intervals) -> None:
        self.claimed = run
        self.command, self.pace = command, pace
        self.files = RunFiles(run.folder)
        self.wish = Run.Request.NONE
        self.worker_leaves = False
        self._parent = os.getppid()
        self._renewed = self._controlled = 0.0
        self._watched: list[str] = []
        storage = object_storage.configured_storage()
        self.keeper = CheckpointSync(run.slug, run.folder, storage) if storage is not None else None

    def run(self) -> str:
        """Until the run ends, is given back, or the lease is lost."""
        child: TrainerProcess | None = None
        try:
            child = self._start()
            return self._conclude(child, self._accompany(child))
        except TrainerCannotStart as error:
            return self._release(Run.State.FAILED, str(error))
        except LeaseLost:
            logger.warning("Run %s: the lease was lost; its trainer is ended.", self.claimed.slug)
            return "lease lost"
        except Exception:
            self._release(
                Run.State.FAILED,
                "The worker made an error of its own; its log says which. The run's "
                "checkpoints are kept: resume goes on from the newest.",
            )
            raise
        finally:
            if child is not None and child.ended() is None:
                child.kill()
            if self.keeper is not None:
                self.keeper.abandon()

    def _start(self) -> TrainerProcess:
        if refusal := hosted_endpoints.refusal(self.claimed.config):
            raise TrainerCannotStart(f"This run cannot be played here: {refusal}")
        try:
            self._prepare()
            run = self.claimed
            seen = hardware.environment(run.reserved) if run.worker and run.worker.gpus else {}
            return TrainerProcess(
                self.command(self.files), self.files, self._hear, processes=_processes(run), environment=seen
            )
        except (OSError, parent_guard.StaleTrainer) as error:
            raise TrainerCannotStart(
                f"The run could not be started: {error}. What it learnt so far is kept: put that right, then resume it."
            ) from error

    def _prepare(self) -> None:
        """The folder, the configuration, and no earlier trainer that still writes there."""
        self.files.folder.mkdir(parents=True, exist_ok=True)
        if parent_guard.kill_stale_trainer(self.files.pid, self.pace.orphan_patience):
            logger.warning("Run %s: ended the trainer of a supervisor that is gone.", self.claimed.slug)
        if self.keeper is not None:
            self._have_the_valid_copy(self.keeper)
        fresh = self.files.config.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(self.claimed.config, sort_keys=False, allow_unicode=True), encoding="utf-8")
        fresh.replace(self.files.config)
        token_subscriptions.write(self.files.folder, [])
        self.ingest = JournalTailer(self.claimed)
        self._persist(self.ingest.drain)
        self._control()

    def _have_the_valid_copy(self, keeper: CheckpointSync) -> None:
        """Fetch the run's files if the valid ones are elsewhere, and note that they are here from now on."""
        if not object_storage.is_current(self.files.folder, self.claimed.copy):
            self._fetch(keeper)
        token = self.claimed.copy
        if not (self.files.folder / object_storage.TOKEN).exists() or not token:
            token = ids.token()
            (self.files.folder / object_storage.TOKEN).write_text(token, encoding="ascii")
        held = Run.objects.held_by(self.claimed.lease).filter(pk=self.claimed.pk)
        self._persist(lambda: held.update(copy=token, journal_offset=self.claimed.journal_offset))
        self.claimed.copy = token

    def _fetch(self, keeper: CheckpointSync) -> None:
        told: list[tuple[int | None, str]] = []
        for attempt in range(1, FETCHES + 1):
            told.clear()
            keeper.fetch(self.claimed, lambda size, problem: told.append((size, problem)))
            self._wait_for(keeper)
            size, problem = told[0] if told else (None, "it broke off")
            if size is not None:
                logger.info("Run %s: its files were fetched from storage.", self.claimed.slug)
                self.claimed.journal_offset = min(size, self._taken_in(size))
                return
            if attempt < FETCHES:
                time.sleep(self.pace.retry)
        raise TrainerCannotStart(
            f"The files of this run are on another worker, and its copy in storage cannot be fetched ({problem}). "
            "Nothing is lost: resume it when the storage answers."
        )

    def _taken_in(self, size: int) -> int:
        """Where the database's knowledge of the fetched journal ends: behind as many lines as it has events."""
        lines = end = 0
        with (self.files.folder / JOURNAL_FILE).open("rb") as file:
            for line in file:
                if lines == self.claimed.seq:
                    return end
                lines, end = lines + 1, end + len(line)
        return min(end, size)

    def _wait_for(self, keeper: CheckpointSync, patience: float = float("inf")) -> None:
        """Until the keeper's thread has ended. Meanwhile the lease is renewed. Raises LeaseLost."""
        deadline = time.monotonic() + patience
        while keeper.busy and time.monotonic() < deadline:
            if self._due():
                self._control()
            time.sleep(self.pace.tick)

    def _accompany(self, child: TrainerProcess) -> int:
        """Tick until the trainer has ended. Returns its exit status."""
        gc.collect()
        gc.freeze()  # what was loaded stays: going through it again would hold up the stream for 0.2 s each time
        while True:
            status = child.ended()  # before the ingest: what was written until then is taken in by _conclude
            if status is not None:
                return status
            began = time.monotonic()
            self._attempt(self.ingest.step)
            if self._due():
                self._control()
                self._tell_watches()
                self._obey(child)
                if self.keeper is not None:
                    self._note(self.keeper.tend())
            self.pace.rest(began)

    def _due(self) -> bool:
        return time.monotonic() - self._controlled >= self.pace.control

    def _control(self) -> None:
        """See what is asked for, and renew the lease. Raises LeaseLost."""
        self._controlled = time.monotonic()
        if self._controlled - self._renewed >= self.pace.renew:
            done, run = self._attempt(lambda: actions.do_renew_lease(self.claimed, timezone.now()))
            if done:
                self._renewed = self._controlled
        else:
            held = Run.objects.held_by(self.claimed.lease).select_related("worker")
            done, run = self._attempt(lambda: held.filter(pk=self.claimed.pk).first())
        if not done:
            return
        if run is None:
            raise LeaseLost
        self.wish = Run.Request(run.requested)
        self.worker_leaves = bool(run.worker and run.worker.stopping)

    def _obey(self, child: TrainerProcess) -> None:
        if self.wish == Run.Request.CANCEL:
            child.kill()
        elif self.wish or self.worker_leaves or os.getppid() != self._parent:
            child.ask_to_stop(self.pace.stop_patience)

    def _tell_watches(self) -> None:
        watched = token_subscriptions.watched(self.claimed.slug)
        if watched == self._watched:
            return
        self._watched = watched
        try:
            token_subscriptions.write(self.files.folder, watched)
        except OSError as error:  # a full disk must not end the training over a live view
            logger.warning("Run %s: the trainer cannot be told what is watched: %s", self.claimed.slug, error)

    def _hear(self, trajectory: str, turn: int, text: str) -> None:
        publisher().tokens(self.claimed.slug, trajectory, turn, text)

    def _note(self, outcome: SyncResult | None) -> None:
        """Say on the run's page how its copy stands. A problem leaves what was copied before as it is."""
        if outcome is None:
            return
        changes: dict[str, object] = {"storage_error": outcome.problem}
        if not outcome.problem:
            changes["kept_iteration"] = outcome.iteration
        held = Run.objects.held_by(self.claimed.lease).filter(pk=self.claimed.pk)
        self._attempt(lambda: held.update(**changes))

    def _keep_the_rest(self) -> None:
        """The last copy, before the lease is given back: whoever takes the run up begins with it."""
        if self.keeper is None or self.wish == Run.Request.CANCEL:
            return
        self.keeper.finish()
        self._wait_for(self.keeper, self.pace.copy_patience)
        self._note(
            self.keeper.taken() or SyncResult(-1, "the last copy took too long; the next attempt tries it again")
        )

    def _conclude(self, child: TrainerProcess, status: int) -> str:
        """The trainer has ended: take in the rest of its journal and say what its end means."""
        self._persist(self.ingest.drain)
        self._control()
        self._keep_the_rest()
        run = self._persist(lambda: Run.objects.get(pk=self.claimed.pk))
        if self.wish == Run.Request.CANCEL:
            return self._release(Run.State.CANCELLED)
        if status == 0:
            return self._release(Run.State.FINISHED)
        if status == INTERRUPTED:
            return self._release(
                {Run.Request.PAUSE: Run.State.PAUSED, Run.Request.STOP: Run.State.STOPPED}.get(
                    self.wish,
                    Run.State.QUEUED,  # nobody asked: the worker leaves, or somebody signalled the trainer
                )
            )
        tail = child.log_tail()
        if status == BAD_CONFIGURATION:
            return self._release(Run.State.FAILED, _configuration_words(tail), tail)
        if status < 0 and self.wish:  # it did not stop in time and was killed
            state = Run.State.PAUSED if self.wish == Run.Request.PAUSE else Run.State.STOPPED
            return self._release(state)
        if status < 0 and self._persist(lambda: actions.do_count_crash(run)) <= actions.MAX_CRASHES:
            logger.warning("Run %s: the trainer was killed by %s; it starts again.", run.slug, _signal_name(status))
            return self._release(Run.State.QUEUED)
        return self._release(Run.State.FAILED, _crash_words(run, status), tail)

    def _release(self, state: Run.State, failure: str = "", log_tail: str = "") -> str:
        released = self._persist(
            lambda: actions.do_release_run(self.claimed, state, failure=failure, log_tail=log_tail)
        )
        return state.label.lower() if released else "lease lost"

    def _attempt(self, work: Callable[[], Result]) -> tuple[bool, Result | None]:
        """Do something in the database; if it is away, training goes on and the next tick tries again."""
        try:
            return True, work()
        except (OperationalError, InterfaceError) as error:
            _complain(self.claimed, error)
            return False, None

    def _persist(self, work: Callable[[], Result]) -> Result:
        """Do something in the database, however long it is away."""
        while True:
            try:
                return work()
            except (OperationalError, InterfaceError) as error:
                _complain(self.claimed, error)
                time.sleep(self.pace.retry)


def _complain(run: Run, error: DatabaseError | InterfaceError) -> None:
    logger.warning("Run %s: the database does not answer (%s); trying again.", run.slug, str(error).strip())
    if not connection.in_atomic_block:
        connection.close()
    close_old_connections()


def _signal_name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _kept(run: Run) -> str:
    newest = run.checkpoints.order_by("-iteration").first()
    if newest is None:
        return "There is no checkpoint yet: resume begins again from the start."
    return f"The checkpoint of iteration {newest.iteration} is kept: resume goes on at {newest.iteration + 1}."


def _crash_words(run: Run, status: int) -> str:
    if status < 0:
        return (
            f"The trainer was killed by {_signal_name(status)} {run.crashes + 1} times without finishing an iteration "
            f"(out of memory is the usual reason). {_kept(run)}"
        )
    return f"The trainer broke off with an error (exit code {status}), see the end of its log. {_kept(run)}"


def _configuration_words(tail: str) -> str:
    said = [line.removeprefix("error: ") for line in tail.splitlines() if line.startswith("error: ")]
    what = "; ".join(said) or "see the end of the log"
    return f"This configuration cannot be trained: {what}. Clone the run and change it."
