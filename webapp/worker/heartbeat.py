"""Heartbeat of a Celery worker, and the reaper that requeues runs of dead workers, each in a thread."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from celery.signals import celeryd_after_setup, worker_ready, worker_shutdown, worker_shutting_down
from django.conf import settings
from django.db import connection

from trainer.models import store
from webapp.core.database import DATABASE_UNAVAILABLE, clock_offset, database_now
from webapp.runs import actions, object_storage
from webapp.runs.queue import device_classes
from webapp.runs.queue.dead_workers import live_workers
from webapp.runs.queue.order import CLOCK_TOLERANCE
from webapp.worker import liveness, ray_cluster, run_limits, trainer_environment
from webapp.worker.computations.evaluation_thread import EvaluationAnswers
from webapp.worker.computations.question_thread import QuestionAnswers
from webapp.worker.computations.token_thread import TokenComputations
from webapp.worker.downloads import models_folder
from webapp.worker.downloads.download_thread import ModelDownloads
from webapp.worker.files import data_folder
from webapp.worker.hardware import describe_device, describe_gpus, describe_memory
from webapp.worker.sandbox import trainer_sandbox
from webapp.worker.supervisor_deaths import SupervisorDeaths
from webapp.worker.usage import UsageHistory

logger = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 5.0
MEMORY_INTERVAL = 15.0
REAP_INTERVAL = 15.0
"""Workers reap at this interval in case the clock, which reaps sooner, is down."""
RUNS_PER_GPU = "ECHOSCOPE_RUNS_PER_GPU"


def runs_per_gpu() -> int:
    """Return the number of runs that may share a GPU: ECHOSCOPE_RUNS_PER_GPU, default 1. Raises ValueError."""
    text = os.environ.get(RUNS_PER_GPU, "").strip() or "1"
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise ValueError(f"{RUNS_PER_GPU} must be a whole number from 1 to 100, not {text!r}.")
    return int(text)


def measured() -> dict[str, Any]:
    """Return the present GPUs and memory of this machine."""
    gpus = describe_gpus()
    return {"gpus": gpus, "memory": describe_memory(gpus)}


class Heartbeat:
    """The heartbeat thread. Signals may interrupt the main thread anywhere, so they only set flags."""

    def __init__(self, name: str, queues: list[str], slots: int) -> None:
        self.name = name
        gpus = describe_gpus()
        self.description: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "device": describe_device(gpus),
            "queues": queues,
            "slots": slots,
            "stopping": False,
            "device_class": device_classes.class_of_worker(len(gpus)),
            "runs_per_gpu": runs_per_gpu(),
            "data_folder": data_folder.identify(Path(settings.ECHOSCOPE_DATA_DIR)),
            "model_store": models_folder.store_identity(),
            "weaknesses": trainer_sandbox.weaknesses(),
        }
        self.description |= measured()
        address = ray_cluster.configured_address()
        self._cluster = ray_cluster.ClusterMonitor(address) if address else None
        self.description["cluster"] = self._cluster.report() if self._cluster else {}
        self._usage = UsageHistory()
        self.description["usage"] = self._usage.sample(self.description["memory"])
        self._downloads = ModelDownloads(name, self.description["model_store"])
        self._tokens = TokenComputations(name)
        self._questions = QuestionAnswers(name)
        self._evaluations = EvaluationAnswers(name)
        self._deaths = SupervisorDeaths(name)
        self._wake = threading.Event()
        self._reap_wake = threading.Event()
        self._end = False
        self._ended = threading.Event()
        self._sign = threading.Thread(target=self._show_alive, name="liveness", daemon=True)
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._reaper = threading.Thread(target=self._reap, name="reaper", daemon=True)
        self._trusted_since = time.monotonic()
        self._apart: set[str] = set()
        """Names of the workers with another data folder that were already logged."""

    def start(self) -> None:
        if self._cluster is not None:
            self._cluster.start()
        self._sign.start()
        self._thread.start()
        self._reaper.start()
        self._downloads.start()
        self._tokens.start()
        self._questions.start()
        self._evaluations.start()

    def leave(self) -> None:
        """Mark the worker as stopping: its supervisors read this from the database and give their runs back."""
        self.description["stopping"] = True
        self._wake.set()
        self._reap_wake.set()

    def stop(self) -> None:
        self._end = True
        self._ended.set()
        self.leave()
        self._downloads.stop()
        self._tokens.stop()
        self._questions.stop()
        self._evaluations.stop()
        self._thread.join(HEARTBEAT_INTERVAL)
        self._reaper.join(HEARTBEAT_INTERVAL)
        if self._cluster is not None:
            self._cluster.stop()

    def _run(self) -> None:
        measured_at = time.monotonic()
        while True:
            self._wake.clear()
            if time.monotonic() - measured_at > MEMORY_INTERVAL:
                measured_at = time.monotonic()
                self.description |= measured()
                self.description["usage"] = self._usage.sample(self.description["memory"])
            if self._cluster is not None:
                self.description["cluster"] = self._cluster.report()
            try:
                self.description["clock_offset"] = offset = clock_offset()
                if abs(offset) > CLOCK_TOLERANCE:
                    logger.warning("The clock of this machine is %+.1f s off that of the database: set it.", offset)
                actions.do_record_heartbeat(self.name, database_now(), **self.description)
                self._warn_of_other_folders()
            except DATABASE_UNAVAILABLE as error:
                logger.warning("The database does not answer: %s", str(error).strip())
                # once it is back, supervisors renew their leases first
                self._trusted_since = time.monotonic() + actions.LEASE.total_seconds()
                connection.close()
            if self._end:
                break
            self._wake.wait(HEARTBEAT_INTERVAL)
        connection.close()

    def _warn_of_other_folders(self) -> None:
        """Warn once about each live worker with another data folder, unless journals also go to object storage."""
        own_folder = self.description["data_folder"]
        if not own_folder or object_storage.configured_storage() is not None:
            return
        alive = live_workers(database_now())
        apart = dict(alive.exclude(data_folder__in=("", own_folder)).values_list("name", "host"))
        if new := sorted(apart.keys() - self._apart):
            logger.warning(
                "%s (%s) has another data folder than this worker: neither can continue a run of the other one. Give "
                "both the same shared folder as ECHOSCOPE_DATA_DIR, or set up object storage (docs/deploy.md).",
                ", ".join(new),
                ", ".join(sorted({apart[name] for name in new})),
            )
        self._apart |= apart.keys()

    def _show_alive(self) -> None:
        """Show that the worker is alive. A thread of its heartbeat could hang with the database for minutes."""
        while not self._ended.is_set():
            liveness.touch()
            self._ended.wait(HEARTBEAT_INTERVAL)

    def _reap(self) -> None:
        """Requeue lost runs, in a thread where a run that cannot be reaped makes no worker look lost."""
        while not self.description["stopping"]:
            try:
                self._deaths.do_take_back_runs()
                if time.monotonic() >= self._trusted_since:
                    actions.do_reap(database_now())
            except DATABASE_UNAVAILABLE as error:
                logger.warning("The runs of lost workers could not be requeued: %s", str(error).strip())
                connection.close()
            self._reap_wake.wait(REAP_INTERVAL)
        connection.close()


_heartbeat: Heartbeat | None = None


def clock_error() -> float:
    """Return the seconds by which this worker's clock is ahead of the database's, as of the last heartbeat."""
    return float(_heartbeat.description.get("clock_offset", 0.0)) if _heartbeat is not None else 0.0


@celeryd_after_setup.connect
def select_queues(sender: str, instance: Any, **kwargs: Any) -> None:
    """Select the queues of a worker without -Q: its hardware's device class, its cluster's, and the class for any."""
    gpus = len(describe_gpus())
    device_class = device_classes.class_of_worker(gpus)
    cluster = ray_cluster.configured_address()
    models_folder.set_models_folder()  # also for the pool's processes
    trainer_sandbox.require_protected(os.environ, store.models_folder())
    runs_per_gpu()  # an invalid value must end the worker here, not in a thread or at each run
    trainer_environment.named_by_operator(os.environ)
    run_limits.configured_limits()
    trainer_sandbox.is_active()
    for weakness in trainer_sandbox.weaknesses():
        logger.warning(weakness)
    trainer_environment.hide_own_environment()  # before the pool's processes are forked, which inherit it
    queues = instance.app.amqp.queues
    if set(queues.consume_from) == {instance.app.conf.task_default_queue}:
        for name in device_classes.served_classes(device_class, gpus, cluster=bool(cluster)):
            queues.select_add(queues.new_missing(name))  # with the same declaration as the sender's


@worker_ready.connect
def start_heartbeat(sender: Any, **kwargs: Any) -> None:
    global _heartbeat
    _heartbeat = Heartbeat(sender.hostname, sorted(sender.app.amqp.queues.consume_from), sender.pool.limit or 1)
    _heartbeat.start()


@worker_shutting_down.connect
def mark_stopping(**kwargs: Any) -> None:
    if _heartbeat is not None:
        _heartbeat.leave()


@worker_shutdown.connect
def stop_heartbeat(**kwargs: Any) -> None:
    if _heartbeat is not None:
        _heartbeat.stop()
