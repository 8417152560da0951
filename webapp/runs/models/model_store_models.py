"""Models in the stores of workers: installed, being downloaded, or being deleted."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from webapp.runs.models.worker_models import Worker
from webapp.teams.models import User

DOWNLOAD_SILENCE = timedelta(seconds=20)
"""If its worker has not reported for longer, a download counts as dead: another worker may take it over."""


class StoredModel(models.Model):
    """A model in a store, which all workers with the same models folder share.

    The worker keeps the rows of installed models equal to its folder, so that models installed on the command line are
    listed too.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Waiting for its worker"
        DOWNLOADING = "downloading", "Downloading"
        INSTALLED = "installed", "Installed"
        FAILED = "failed", "Failed"
        DELETING = "deleting", "Being deleted"

    PENDING = (State.QUEUED, State.DOWNLOADING)
    REQUESTED = (*PENDING, State.DELETING)

    name = models.CharField(max_length=200, help_text="As in policy.model.")
    store = models.CharField(max_length=24, help_text="Identity of the models folder; see Worker.model_store.")
    state = models.CharField(max_length=20, choices=State.choices, default=State.QUEUED)
    requested_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    requested_at = models.DateTimeField(null=True, blank=True)
    worker = models.ForeignKey(Worker, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    lease = models.CharField(max_length=36, blank=True, help_text="Token of the worker that downloads it.")
    seen_at = models.DateTimeField(null=True, blank=True, help_text="Last report of that worker.")
    attempts = models.PositiveIntegerField(default=0, help_text="Starts of this download; a lost worker costs one.")
    stage = models.CharField(max_length=20, blank=True, help_text="download, convert or check.")
    done_bytes = models.BigIntegerField(default=0)
    total_bytes = models.BigIntegerField(default=0, help_text="0 if unknown.")
    error = models.TextField(blank=True)
    bytes = models.BigIntegerField(default=0, help_text="Size of the installed folder.")
    source = models.CharField(max_length=300, blank=True)
    licence = models.CharField(max_length=100, blank=True)
    shape = models.JSONField(default=dict, blank=True, help_text="Its config.json, for memory estimates.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["store", "name"], name="stored_model_once")]

    def __str__(self) -> str:
        return f"{self.name}, {self.state}"

    @property
    def pending(self) -> bool:
        """True if it is queued for download or being downloaded."""
        return self.state in self.PENDING

    @property
    def share(self) -> float | None:
        """Progress of the present stage from 0 to 1; None if it is unknown."""
        return min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else None

    def is_silent(self, now: datetime) -> bool:
        """Return True if its worker has stopped reporting in the middle of a download."""
        silent = self.seen_at is None or now - self.seen_at > DOWNLOAD_SILENCE
        return self.state == self.State.DOWNLOADING and silent
