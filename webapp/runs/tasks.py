"""Celery's entry point. A message only wakes a worker up; what is to be done stands in PostgreSQL."""

from __future__ import annotations

from celery import Task, shared_task

from webapp.runs.models import Worker


@shared_task(bind=True)
def run_training(self: Task, run_id: int) -> str:
    """Supervise the run, if nobody else does."""
    from webapp.runs.supervisor import supervise

    return supervise(run_id, Worker.objects.filter(name=self.request.hostname).first())
