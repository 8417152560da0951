"""Base of the requests that a worker carries out alongside its runs."""

from __future__ import annotations

from django.db import models

from webapp.runs.models.worker_models import Worker
from webapp.teams.models import User


class WorkerRequest(models.Model):
    """A request to a worker, with the lease of the worker that carries it out (webapp/runs/worker_requests.py)."""

    class State(models.TextChoices):
        QUEUED = "queued", "Waiting for a worker"
        RUNNING = "running", "Being computed"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    PENDING = (State.QUEUED, State.RUNNING)

    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    requested_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    requested_at = models.DateTimeField()
    worker = models.ForeignKey(Worker, on_delete=models.SET_NULL, null=True, related_name="+")
    lease = models.CharField(max_length=36, blank=True, help_text="Token of the worker that carries it out.")
    seen_at = models.DateTimeField(null=True, help_text="Last report of that worker.")
    attempts = models.PositiveIntegerField(default=0, help_text="Starts; a lost worker costs one.")
    error = models.TextField(blank=True, help_text="Why it failed, for people.")

    class Meta:
        abstract = True

    @property
    def pending(self) -> bool:
        """True if it waits for a worker, or a worker carries it out."""
        return self.state in self.PENDING
