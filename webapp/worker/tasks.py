"""Celery task that starts a queued run. Its message only wakes a worker: the queue itself is in PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from celery import Task, shared_task
from celery.worker.request import Request

from webapp.runs.actions import TRAIN_TASK
from webapp.worker import heartbeat


class WakeRequest(Request):
    """Message that wakes a worker. It expires by the database's clock, whatever the worker's clock shows."""

    def maybe_expire(self) -> bool:
        if self.expires is None:
            return False
        return bool(datetime.now(UTC) - timedelta(seconds=heartbeat.clock_error()) > self.expires)


class WakeTask(Task):
    """Task whose messages are only wake-ups: expired ones are dropped."""

    abstract = True
    Request = f"{WakeRequest.__module__}:{WakeRequest.__qualname__}"


@shared_task(name=TRAIN_TASK, bind=True, base=WakeTask)
def train(self: Task, run_id: int) -> str:
    """Supervise the first waiting run that fits this worker: the given run, or an earlier one in the queue."""
    from webapp.worker.supervisor import serve

    return serve(self.request.hostname)
