"""Shares of an iteration's training attempts that match watched views, stored as metrics of the runs.

A job of the clock computes them once an iteration has ended, for live runs and for those that ended lately: the newest
runs and iterations first, a few seconds at a time, each share once. A share that depends on the judge of mistakes waits
for its marks; stars, tags and comments of people count as they are then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.http import QueryDict

from webapp.core.database import StatementTooSlow, statement_limit
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.explorer.watching import share_filters, share_problem
from webapp.notifications.run_events import record_share
from webapp.runs.curve_axes import curve_axes
from webapp.runs.models import MetricPoint, Run
from webapp.saved_views.models import SavedView, WatchedRun
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet

logger = logging.getLogger(__name__)

ROUND_SECONDS = 2.0
"""Duration of a round of the clock, which has other jobs."""
STATEMENT_SECONDS = 5.0
"""Maximum duration of one share: a regular expression may be slow on long responses."""
EARLIER = timedelta(days=30)
"""Runs that ended before are left as they are."""
_BY_THE_JUDGE = {"mark", "mistake_turn", "text"}
"""Filters that read what the judge of mistakes stores after the end of an attempt; `text` searches its comment."""


def due() -> QuerySet[Run]:
    """Return runs in which the shares of a watched view may be missing."""
    state = {name: OuterRef(OuterRef(name)) for name in WatchedRun.STATE}
    computed = WatchedRun.objects.filter(view=OuterRef("pk"), run=OuterRef(OuterRef("pk")), **state)
    views = SavedView.objects.watched().filter(~Exists(computed), team=OuterRef("team"))
    lately = Q(ended_at=None) | Q(ended_at__gte=Now() - EARLIER)
    return Run.objects.filter(lately, Exists(views), seq__gt=0)


def do_compute_shares() -> int:
    """Compute missing shares for ROUND_SECONDS; a round of the clock's job. Returns their number."""
    end = time.monotonic() + ROUND_SECONDS
    number = 0
    for run in due().defer("log_tail", "summary", "journal_error").order_by("-pk"):
        computed = WatchedRun.objects.filter(run=run, **WatchedRun.state_of(run)).values("view")
        for view in SavedView.objects.watched().filter(team=run.team_id).exclude(pk__in=computed):
            number += _catch_up(run, view, end)
            if time.monotonic() >= end:
                return number
    return number


def _catch_up(run: Run, view: SavedView, end: float) -> int:
    """Compute the missing shares of a view in a run until the time `end`. Returns their number."""
    filters, errors = Filters.parse(QueryDict(view.query))
    if errors or share_problem(filters):  # an upgrade removed what it filters by
        _store(run, view, {}, complete=True)
        return 0
    shares: dict[int, float] = {}
    complete = True
    for iteration in _missing(run, view):
        if time.monotonic() >= end:
            complete = False
            break
        if not _is_judged(run, iteration, filters):
            complete = False
            continue
        try:
            shares[iteration] = _share(run, iteration, filters)
        except StatementTooSlow:
            logger.warning("Watched view %s is too slow in run %s; it waits for the next iteration.", view.pk, run.slug)
            break
    _store(run, view, shares, complete=complete)
    return len(shares)


def _attempts(run: Run, iteration: int) -> TrajectoryQuerySet:
    return Trajectory.objects.current().filter(run=run, split="train", iteration=iteration)


def _missing(run: Run, view: SavedView) -> list[int]:
    """Return iterations that have ended and have no share, newest first.

    Other trainers log the metrics of one iteration in several events, so the newest one of a live run may not have
    ended.
    """
    ended = run.iteration - (run.recorded is not None and not run.end_reason)
    attempts = Trajectory.objects.current().filter(run=run, split="train", iteration__lte=ended)
    known = MetricPoint.objects.filter(run=run, name=view.metric).values("iteration")
    missing = attempts.exclude(iteration__in=known).order_by("-iteration").values_list("iteration", flat=True)
    return list(missing.distinct())


def _is_judged(run: Run, iteration: int, filters: Filters) -> bool:
    if _BY_THE_JUDGE.isdisjoint(filters.active()):
        return True
    return not _attempts(run, iteration).filter(worst_mark__isnull=True, finished_seq__isnull=False).exists()


def _share(run: Run, iteration: int, filters: Filters) -> float:
    """Return the share of the iteration's attempts that match. Raises StatementTooSlow."""
    matching = replace(share_filters(filters), split="train", iteration=iteration)
    with statement_limit(STATEMENT_SECONDS):
        return filter_trajectories(run, matching).count() / max(1, _attempts(run, iteration).count())


@transaction.atomic
def _store(run: Run, view: SavedView, shares: Mapping[int, float], *, complete: bool) -> None:
    """Store shares and their alert, unless the run was repeated or the view was changed while they were computed."""
    runs = Run.objects.select_for_update(of=("self",)).filter(attempt=run.attempt, rebuilds=run.rebuilds)
    views = SavedView.objects.select_for_update(of=("self",)).filter(curve=view.curve, query=view.query)
    if runs.filter(pk=run.pk).only("pk").first() is None or views.filter(pk=view.pk).first() is None:
        return
    axes = curve_axes(run, shares)
    points = (
        MetricPoint(run=run, name=view.metric, iteration=iteration, value=share, tokens=tokens, seconds=seconds)
        for iteration, share in shares.items()
        for tokens, seconds in [axes.get(iteration, (0, 0.0))]
    )
    MetricPoint.objects.bulk_create(points, ignore_conflicts=True)
    above = [iteration for iteration, share in shares.items() if view.threshold is not None and share > view.threshold]
    if above:
        record_share(run, view, max(above), shares[max(above)])
    if complete:
        WatchedRun.objects.update_or_create(view=view, run=run, defaults=WatchedRun.state_of(run))
