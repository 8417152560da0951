"""Small jobs that must not wait behind a training run: threads inside the clock's process (`celery beat`).

A worker's slot may be taken for hours, so alerts and e-mails are no tasks of the training queue; a second worker
process would cost a hundred megabytes for a few kilobytes of text. The clock runs even when every worker is dead,
which is when an alert is needed most. Jobs keep all they know in PostgreSQL and claim what they do there: two clocks do
no harm, and one that dies loses nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery.signals import beat_init
from django.db import InterfaceError, OperationalError, close_old_connections, connection

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """Something to be done again and again, with a pause in between."""

    name: str
    pause: float
    work: Callable[[], object]


_jobs: list[Job] = []


def every(pause: float, name: str, work: Callable[[], object]) -> None:
    """Do `work` in the clock's process, with so many seconds between two times. Call it when the app is ready."""
    _jobs.append(Job(name, pause, work))


class Scheduler:
    """The threads, one for each job: a job that waits for somebody holds up no other."""

    def __init__(self, jobs: list[Job]) -> None:
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._live, args=(job,), name=job.name, daemon=True) for job in jobs]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(30)

    def _live(self, job: Job) -> None:
        while not self._end.is_set():
            try:
                job.work()
            except (OperationalError, InterfaceError) as error:
                logger.warning("%s: the database does not answer (%s); trying again.", job.name, str(error).strip())
                connection.close()
            except Exception:  # a fault in one round must not end all later ones; the log has it
                logger.exception("%s failed; it goes on with the next round.", job.name)
            close_old_connections()
            self._end.wait(job.pause)
        connection.close()


@beat_init.connect
def begin(**kwargs: Any) -> None:
    Scheduler(_jobs).start()
