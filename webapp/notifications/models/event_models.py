"""Events that people may be notified of, and since when runs have made no progress."""

from __future__ import annotations

from django.db import models

from webapp.annotations.models import Comment
from webapp.runs.models import Run


class RunEvent(models.Model):
    """An event of a run, stored in the transaction in which it happens. It is dispatched to all who subscribe to it.

    `key` identifies it, however often it is found: a journal may be read several times.
    """

    class Kind(models.TextChoices):
        WATCH = "watch", "Echo Trap: watch"
        TRAPPED = "trapped", "Echo Trap: trapped"
        FAILED = "failed", "Run failed"
        FINISHED = "finished", "Run finished"
        EVALUATION = "evaluation", "Evaluation"
        COMMENT = "comment", "Comment"
        QUEUED = "queued", "Run waits in the queue"
        STALLED = "stalled", "Run makes no progress"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, null=True, related_name="+")
    key = models.CharField(max_length=200, unique=True)
    at = models.DateTimeField()
    where = models.CharField(max_length=100, blank=True, help_text="In the run, such as “after iteration 8”.")
    message = models.TextField(blank=True)
    details = models.JSONField(default=dict)
    dispatched_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["id"], name="event_pending", condition=models.Q(dispatched_at=None))]

    def __str__(self) -> str:
        return self.key


class StalledRun(models.Model):
    """Time since which a queued or held run has made no progress."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="stalled")
    state = models.CharField(max_length=10, help_text="queued, or held by a worker.")
    seq = models.PositiveBigIntegerField(help_text="Journal events at its last progress.")
    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"run {self.run_id} {self.state} at event {self.seq} since {self.since}"
