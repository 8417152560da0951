"""Watching of shared views: which of them can be watched, and the start and end of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify

from webapp.explorer.scanners import Scanner
from webapp.explorer.trajectory_filters import DEFAULT_SORT, Filters, read_query
from webapp.runs.models import MetricPoint
from webapp.saved_views.actions import ViewRefused, do_save_view
from webapp.saved_views.models import MAX_NAME_LENGTH, SavedView
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Team, User

MAX_WATCHED = 20
"""Watched views of a team."""


def share_filters(filters: Filters) -> Filters:
    """Return the filters of a share of an iteration's training attempts: without iterations, split and appearance."""
    return replace(
        filters, iteration=None, iteration_min=None, iteration_max=None, split=None, sort=DEFAULT_SORT, hide="", view=""
    )


def share_problem(filters: Filters) -> str:
    """Return why the filters make no sense as a share of an iteration's training attempts; empty if they do."""
    if filters.split == "eval" or filters.suite is not None:
        return "A watched view counts training attempts: remove the filters that choose evaluations."
    if filters.outcome in ("playing", "waiting"):
        return "A watched view counts attempts that have ended: choose another outcome."
    if not share_filters(filters).active():
        return "Every attempt of an iteration matches this view: add a filter, and save it again."
    return ""


@transaction.atomic
def do_watch(view: SavedView, threshold: float | None) -> SavedView:
    """Watch a view that is shared with a team, or change the threshold of its alert. Raises ViewRefused."""
    assert view.team_id is not None
    if problem := share_problem(read_query(view.query)):
        raise ViewRefused(problem)
    team = Team.objects.select_for_update().get(pk=view.team_id)  # views are counted and named one after the other
    view = SavedView.objects.select_for_update().get(pk=view.pk)
    if not view.curve:
        _begin(view, team)
    view.threshold = threshold
    view.save(update_fields=["curve", "watched_since", "threshold"])
    _record(view, "watched", threshold=threshold)
    return view


@transaction.atomic
def do_watch_scanner(team: Team, author: User, scanner: Scanner, threshold: float | None) -> SavedView:
    """Save a shipped scanner as a view of the team and watch it. Raises ViewRefused."""
    Team.objects.select_for_update().get(pk=team.pk)
    query = read_query(scanner.query).query()
    view = SavedView.objects.shared_with(team.pk).filter(scanner=scanner.slug, query=query).first()
    if view is None:
        own = SavedView.objects.filter(author=author, list=SavedView.List.TRAJECTORIES, name=scanner.name)
        if own.exists():
            raise ViewRefused(f"You have another view called “{scanner.name}”. Rename it first.")
        view = do_save_view(author, SavedView.List.TRAJECTORIES, scanner.name, query, team)
        view.scanner = scanner.slug
        view.save(update_fields=["scanner"])
    return do_watch(view, threshold)


@transaction.atomic
def do_stop_watching(view: SavedView) -> None:
    """Stop watching a view. Its curves remain as they are."""
    if SavedView.objects.filter(pk=view.pk).exclude(curve="").update(curve=""):
        _record(view, "no longer watched")


def _begin(view: SavedView, team: Team) -> None:
    """Give the view a curve, without points of an earlier view of the same name."""
    curves = set(SavedView.objects.filter(team=team).exclude(curve="").values_list("curve", flat=True))
    if len(curves) >= MAX_WATCHED:
        raise ViewRefused(
            f"{team.name} watches {MAX_WATCHED} views, the most there can be. Stop watching one that you do not need."
        )
    view.curve = next(name for name in _names(view) if name not in curves)
    view.watched_since = timezone.now()
    view.watched_runs.all().delete()
    MetricPoint.objects.filter(run__team=team, name=view.metric).delete()


def _names(view: SavedView) -> Iterator[str]:
    name = slugify(view.name) or f"view-{view.pk}"
    yield name
    for number in count(2):
        ending = f"-{number}"
        yield f"{name[: MAX_NAME_LENGTH - len(ending)]}{ending}"


def _record(view: SavedView, change: str, **details: Any) -> None:
    action, path = AuditAction.VIEW_CHANGED, reverse("saved-views")
    record(action, f"the view “{view.name}”: {change}", team=view.team, path=path, **details)
