"""Events that people may be notified of."""

from __future__ import annotations

from django.db import models

from webapp.annotations.models import Comment
from webapp.runs.models import Run


class RunEvent(models.Model):
    """An event of a run, stored in the transaction in which it happens and then dispatched to all subscribers.

    `key` identifies it however often it is detected, since a journal may be read several times.
    """

    EVALUATION = "evaluation"
    COMMENT = "comment"
    SOLVED = "solved"

    kind = models.CharField(max_length=10, help_text="A Rule.Event, EVALUATION, COMMENT or SOLVED.")
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
