"""A thread in every Celery worker: says that the worker lives, and finds runs whose worker does not.

What is written is in actions.py.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from typing import Any

from celery.signals import celeryd_after_setup, worker_ready, worker_shutdown, worker_shutting_down
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from webapp.runs import actions
from webapp.runs.queue import device_classes
from webapp.worker.hardware import describe_device, describe_gpus, describe_memory

logger = logging.getLogger(__name__)

EVERY = 5.0
MEMORY_EVERY = 15.0
SHARED_BY = "ECHOSCOPE_RUNS_PER_GPU"


def runs_per_gpu() -> int:
    """How many runs may share one GPU of this worker: ECHOSCOPE_RUNS_PER_GPU, else one. Raises ValueError."""
    given = os.environ.get(SHARED_BY, "").strip() or "1"
    if not given.isdecimal() or not 0 < int(given) <= 100:
        raise ValueError(f"{SHARED_BY} must be a whole number from 1 to 100, not {given!r}.")
    return int(given)


def measured() -> dict[str, Any]:
    """What of this machine is free at this moment."""
    gpus = describe_gpus()
    return {"gpus": gpus, "memory": describe_memory(gpus)}


class Heartbeat:
    """The thread. Its signals may come at any instruction of the main thread, so they only set flags."""

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
        } | measured()
        self._wake = threading.Event()
        self._end = False
        self._thread = threading.Thread(target=self._live, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """The worker shuts down: its supervisors see it in the database and give their runs back."""
        self.description["stopping"] = True
        self._wake.set()

    def stop(self) -> None:
        self._end = True
        self.leave()
        self._thread.join(EVERY)

    def _live(self) -> None:
        trusted_since = looked = time.monotonic()
        while True:
            self._wake.clear()
            if time.monotonic() - looked > MEMORY_EVERY:
                looked = time.monotonic()
                self.description |= measured()
            try:
                now = timezone.now()
                actions.do_record_heartbeat(self.name, now, **self.description)
                if time.monotonic() >= trusted_since and not self.description["stopping"]:
                    actions.do_reap(now)
            except (OperationalError, InterfaceError) as error:
                logger.warning("The database does not answer: %s", str(error).strip())
                # when it is back, supervisors renew their leases first
                trusted_since = time.monotonic() + actions.LEASE.total_seconds()
            finally:
                connection.close()
            if self._end:
                return
            self._wake.wait(EVERY)


_heartbeat: Heartbeat | None = None


@celeryd_after_setup.connect
def serve_its_classes(sender: str, instance: Any, **kwargs: Any) -> None:
    """A worker that was not told its queues (-Q) serves its device class, that of its hardware, and what suits any."""
    gpus = len(describe_gpus())
    own = device_classes.class_of_worker(gpus)
    runs_per_gpu()  # a wrong number ends the worker here, with a sentence, and not in its thread
    queues = instance.app.amqp.queues
    if set(queues.consume_from) == {instance.app.conf.task_default_queue}:
        for name in device_classes.served_classes(own, gpus):
            queues.select_add(queues.new_missing(name))  # declared as whoever sends to it declares it


@worker_ready.connect
def begin(sender: Any, **kwargs: Any) -> None:
    global _heartbeat
    _heartbeat = Heartbeat(sender.hostname, sorted(sender.app.amqp.queues.consume_from), sender.pool.limit or 1)
    _heartbeat.start()


@worker_shutting_down.connect
def leave(**kwargs: Any) -> None:
    if _heartbeat is not None:
        _heartbeat.leave()


@worker_shutdown.connect
def end(**kwargs: Any) -> None:
    if _heartbeat is not None:
        _heartbeat.stop()
