"""Celery task that starts a queued run. The message only wakes a worker: the queue itself is in PostgreSQL."""

from __future__ import annotations

from celery import Task, shared_task

from webapp.runs.actions import TRAIN_TASK

OLD_TRAIN_TASK = "webapp.runs.tasks.run_training"


@shared_task(name=TRAIN_TASK, bind=True)
def train(self: Task, run_id: int) -> str:
    """Supervise the first waiting run that fits this worker: the given one, or one before it in the queue."""
    from webapp.worker.supervisor import serve

    return serve(self.request.hostname)


@shared_task(name=OLD_TRAIN_TASK, bind=True)
def train_by_old_name(self: Task, run_id: int) -> str:
    """The same task under its former name, for messages queued before an upgrade."""
    from webapp.worker.supervisor import serve

    return serve(self.request.hostname)
