"""Thins training trajectories and branches of runs that ended long ago, by the team's setting.

Kept are curves, evaluations, the first group of every iteration, so that a run remains readable throughout, its last
iteration, and trajectories that are pinned, shared, annotated or in a report, with those that their branches continue.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import DateTimeField, DurationField, Exists, ExpressionWrapper, F, OuterRef, Q, Value

from webapp.annotations.queries import is_annotated
from webapp.reports.models import embedded_in_reports
from webapp.runs.models import Run
from webapp.trajectories.models import BRANCH, ShareLink, Trajectory, TrajectoryQuerySet

logger = logging.getLogger(__name__)

BATCH_SIZE = 500


def thinnable(now: datetime) -> TrajectoryQuerySet:
    """Return trajectories that the teams' retention settings permit to delete: those with branches after these."""
    kept_for = ExpressionWrapper(F("team__retention_days") * Value(timedelta(days=1)), output_field=DurationField())
    too_old = ExpressionWrapper(Value(now) - kept_for, output_field=DateTimeField())
    runs = Run.objects.filter(team__retention_days__isnull=False, state__in=Run.ENDED, ended_at__lt=too_old)
    shared = ShareLink.objects.values("trajectory")
    branches = Trajectory.with_branches.filter(group__question__trajectory=OuterRef("pk"))
    needless = Q(superseded=True) | (Q(group__number__gt=0) & Q(iteration__lt=F("run__iteration")))
    return (
        Trajectory.with_branches.filter(run__in=runs.values("pk"), pinned=False)
        .filter(Q(split=BRANCH) | (Q(split="train") & needless))
        .exclude(pk__in=shared)
        .exclude(is_annotated())
        .exclude(embedded_in_reports())
        .exclude(Exists(branches))
    )


def do_thin(now: datetime) -> int:
    """Delete the thinnable trajectories in small batches, so that pages do not wait. Returns their number."""
    gone = 0
    while True:
        with transaction.atomic():
            some = list(thinnable(now).order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE])
            Trajectory.with_branches.filter(pk__in=some).delete()
        gone += len(some)
        if not some:  # each batch may be the branches of the next one
            break
    if gone:
        logger.info("Retention: %d trajectories of ended runs were thinned out.", gone)
    return gone
