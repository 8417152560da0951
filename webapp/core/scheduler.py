"""Periodic jobs in threads of the clock process (`celery beat`), so that they do not wait behind a training run.

A worker's slot may be taken for hours, so alerts and e-mails are not tasks of the training queue; a second worker
process would cost a hundred megabytes. The clock also runs when all workers are dead, when an alert is needed most.
Jobs keep their state in PostgreSQL and claim work there: two clocks are safe, and a crash loses nothing.

Jobs that rarely find work name the rows that they wait for. One query every LOOK_INTERVAL looks for the rows of all
these jobs, so that an idle site is spared their rounds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from celery.signals import beat_init
from django.db import connection
from django.db.models import QuerySet

from webapp.core.database import DATABASE_UNAVAILABLE

logger = logging.getLogger(__name__)

LOOK_INTERVAL = 2.0
"""Seconds between two looks for waiting rows."""

Rows = Callable[[], Sequence[QuerySet[Any, Any]]]


@dataclass(frozen=True)
class Job:
    """A periodic job, with a pause between two rounds.

    `waiting` contains querysets of the rows that a round would work on, with times as database expressions; without any
    row there is no round. None: a round after each pause.
    """

    name: str
    pause: float
    work: Callable[[], object]
    waiting: Rows | None = None


_jobs: list[Job] = []


def every(pause: float, name: str, work: Callable[[], object], waiting: Rows | None = None) -> None:
    """Register a job (see Job) of the clock process. Call it when the app is ready."""
    _jobs.append(Job(name, pause, work, waiting))


class Lookout:
    """Finds jobs with waiting rows by one statement, which is composed once."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._conditions = [(job.name, rows) for job in jobs if job.waiting for rows in job.waiting()]

    @cached_property
    def _statement(self) -> tuple[str, list[Any]]:
        queries = [rows.order_by().values("pk")[:1].query.sql_with_params() for _, rows in self._conditions]
        statement = "SELECT " + ", ".join(f"EXISTS ({sql})" for sql, _ in queries)
        return statement, [value for _, parameters in queries for value in parameters]

    def due(self) -> set[str]:
        """Return names of the jobs that have work."""
        with connection.cursor() as cursor:
            statement, parameters = self._statement
            cursor.execute(statement, parameters)
            answers = cursor.fetchone()
        return {name for (name, _), exists in zip(self._conditions, answers, strict=True) if exists}


class Scheduler:
    """One thread per job, so that a slow job delays no other, and one that looks for waiting rows."""

    def __init__(self, jobs: list[Job], look_interval: float = LOOK_INTERVAL) -> None:
        self._end = threading.Event()
        self._look_interval = look_interval
        self._due = {job.name: threading.Event() for job in jobs if job.waiting}
        self._threads = [threading.Thread(target=self._run, args=(job,), name=job.name, daemon=True) for job in jobs]
        if self._due:
            lookout = Lookout(jobs)
            self._threads.append(threading.Thread(target=self._look, args=(lookout,), name="lookout", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for due in self._due.values():
            due.set()
        for thread in self._threads:
            thread.join(30)

    def _look(self, lookout: Lookout) -> None:
        def look() -> None:
            for name in lookout.due():
                self._due[name].set()

        while not self._end.is_set():
            _try("The look for due jobs", look)
            self._end.wait(self._look_interval)
        connection.close()

    def _run(self, job: Job) -> None:
        due = self._due.get(job.name)
        while True:
            if due is not None:
                due.wait()
                due.clear()
            if self._end.is_set():
                break
            _try(job.name, job.work)
            self._end.wait(job.pause)
            if due is None or not due.is_set():
                connection.close()  # an open one costs megabytes
        connection.close()


def _try(name: str, work: Callable[[], object]) -> None:
    """Run one round. A failure must not end all later rounds."""
    try:
        work()
    except DATABASE_UNAVAILABLE as error:
        logger.warning("%s: the database does not answer (%s); retrying.", name, str(error).strip())
        connection.close()
    except Exception:
        logger.exception("%s failed; it continues with the next round.", name)


@beat_init.connect
def start_jobs(**kwargs: Any) -> None:
    Scheduler(_jobs).start()
