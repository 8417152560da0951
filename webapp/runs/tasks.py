"""Celery's entry point. A message only wakes a worker up; what is to be done stands in PostgreSQL."""

from __future__ import annotations

from celery import Task, shared_task


@shared_task(bind=True)
def run_training(self: Task, run_id: int) -> str:
    """Supervise the best run that waits and fits this worker: that one, or one that goes before it."""
    from webapp.runs.supervisor import serve

    return serve(self.request.hostname)
