"""Soft deletion: a marked row is hidden immediately, and deleted for good when the deletion can no longer be undone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar, TypeVar

from django.db import models

UNDO_TIME = timedelta(minutes=10)
"""Time in which a removal can be undone, unless its model says otherwise."""

M = TypeVar("M", bound=models.Model)


class NotDeleted(models.Manager[M]):
    """Rows that are not deleted."""

    def get_queryset(self) -> models.QuerySet[M]:
        return super().get_queryset().filter(deleted_at=None)


class SoftDeleted(models.Model):
    """Base of models whose rows people delete (webapp/teams/removals.py).

    Their `objects` are NotDeleted; queries that join them from other models have to leave deleted rows out.
    """

    UNDO_TIME: ClassVar[timedelta] = UNDO_TIME

    deleted_at = models.DateTimeField(null=True, editable=False, help_text="Kept for a while to undo the deletion.")

    class Meta:
        abstract = True


def do_purge(now: datetime) -> int:
    """Delete rows for good once their deletion can no longer be undone. Returns their number, with dependent rows."""
    return sum(
        model._base_manager.filter(deleted_at__lte=now - model.UNDO_TIME).delete()[0]
        for model in SoftDeleted.__subclasses__()
    )
