"""Models of the API: idempotency keys, and journals that are uploaded in pieces."""

from __future__ import annotations

from django.db import models

from webapp.runs.models import Run
from webapp.teams.models import User


class IdempotencyKey(models.Model):
    """A request that created a run, under the key chosen by its caller."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    operation = models.CharField(max_length=40)
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of the request's parameters.")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "operation", "key"], name="one_request_per_key")]

    def __str__(self) -> str:
        return f"{self.operation} {self.key}"


class SentJournal(models.Model):
    """A run whose journal is uploaded through the API. While `growing`, the run counts as running."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="sent_journal")
    heard_at = models.DateTimeField(db_index=True, help_text="Time of the sender's last request.")
    growing = models.BooleanField(default=False, help_text="The sender announced further events.")
    image_count = models.PositiveIntegerField(default=0, db_default=0, help_text="Images of observations.")
    image_bytes = models.PositiveBigIntegerField(default=0, db_default=0, help_text="Of these images together.")
    swept_trajectories = models.PositiveIntegerField(
        null=True, help_text="Trajectories of the run when images without references were last deleted."
    )

    def __str__(self) -> str:
        return f"journal of {self.run_id}"
