"""Periodic jobs in threads of the clock process (`celery beat`), so that they do not wait behind a training run.

A worker's slot may be taken for hours, so alerts and e-mails are not tasks of the training queue; a second worker
process would cost a hundred megabytes. The clock also runs when all workers are dead, when an alert is needed most.
Jobs keep their state in PostgreSQL and claim work there: two clocks are safe, and a crash loses nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery.signals import beat_init
from django.db import close_old_connections, connection

from webapp.core.database import DATABASE_UNAVAILABLE

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A periodic job, with a pause between two rounds."""

    name: str
    pause: float
    work: Callable[[], object]


_jobs: list[Job] = []


def every(pause: float, name: str, work: Callable[[], object]) -> None:
    """Register `work` to run in the clock process every `pause` seconds. Call it when the app is ready."""
    _jobs.append(Job(name, pause, work))


class Scheduler:
    """One thread per job: a slow job delays no other."""

    def __init__(self, jobs: list[Job]) -> None:
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(job,), name=job.name, daemon=True) for job in jobs]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, job: Job) -> None:
        while not self._end.is_set():
            try:
                job.work()
            except DATABASE_UNAVAILABLE as error:
                logger.warning("%s: the database does not answer (%s); retrying.", job.name, str(error).strip())
                connection.close()
            except Exception:  # one failed round must not end all later ones
                logger.exception("%s failed; it continues with the next round.", job.name)
            close_old_connections()
            self._end.wait(job.pause)
        connection.close()


@beat_init.connect
def start_jobs(**kwargs: Any) -> None:
    Scheduler(_jobs).start()
