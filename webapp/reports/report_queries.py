"""Lists of reports, and reports that embed a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Exists, F, OuterRef, Q

from webapp.annotations.models import Star, Tagging
from webapp.reports.models import Report, ReportQuerySet
from webapp.runs.models import Run
from webapp.teams.access import role_in_team
from webapp.teams.models import User
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_MENTIONS = 10


def find(user: User | AnonymousUser, text: str = "", *, archived: bool = False) -> ReportQuerySet:
    """Reports of the user's teams that contain every word of the text, most recently edited first."""
    reports = Report.objects.of_teams_of(user).filter(archived_at__isnull=not archived)
    for word in text.replace("\0", "").split()[:10]:
        reports = reports.filter(Q(title__icontains=word) | Q(body__icontains=word))
    return reports.select_related("team", "author").order_by("-edited_at", "-pk")


def mentioning(user: User | AnonymousUser, run: Run) -> list[Report]:
    """Reports that embed the run or one of its trajectories: of the user's teams, and public ones of the run's team."""
    public = Report.objects.filter(team=run.team_id, visibility=Report.Visibility.PUBLIC)
    found = (Report.objects.of_teams_of(user) | public).filter(runs=run, archived_at=None)
    return list(found.order_by("-edited_at").only("slug", "title", "edited_at")[:MAX_MENTIONS])


def embedded_in_reports() -> Q:
    """Condition on trajectories: a report of their own team embeds it; those of other teams do not count."""
    embedded = Report.trajectories.through.objects.filter(trajectory__run__team=F("report__team"))
    return Q(pk__in=embedded.values("trajectory"))


def insertable_runs(user: User | AnonymousUser, text: str, limit: int = 12) -> list[Run]:
    """Runs to insert into a report: those whose title, slug, environment or a tag matches, newest first."""
    runs = Run.objects.of_teams_of(user).select_related("team").defer("log_tail", "summary")
    for word in text.replace("\0", "").split()[:10]:
        runs = runs.filter(
            Q(title__icontains=word) | Q(slug=word) | Q(environment__icontains=word) | Q(tags__contains=[word])
        )
    return list(runs.order_by("-created_at")[:limit])


def insertable_trajectories(
    user: User | AnonymousUser, run: Run | None, text: str, limit: int = 12
) -> list[Trajectory]:
    """Ended trajectories to insert: of the run, or starred or tagged ones of all; the words select a tag or a slug.

    The user may read the run. Tags are the team's own: they select nothing in the runs of others.
    """
    words = text.replace("\0", "").split()[:10]
    found = Trajectory.objects.current().filter(status__in=Trajectory.COUNTED)
    if run is not None:
        found = found.filter(run=run)
        tags = role_in_team(user, run.team_id) is not None
    else:
        annotated = Star.objects.order_by().values("trajectory").union(Tagging.objects.order_by().values("trajectory"))
        if words:
            annotated = annotated.union(Trajectory.objects.filter(slug=words[0]).values("pk"))
        found = found.filter(pk__in=annotated, run__in=Run.objects.of_teams_of(user).values("pk"))
        tags = True
    for word in words:
        if word.lower() in ("solved", "failed"):
            solved = word.lower() == "solved"
            found = found.filter(status=Trajectory.Status.SUCCESS if solved else Trajectory.Status.FAILED)
            continue
        named = Q(slug=word) | (Q(run__title__icontains=word) if run is None else Q(key__icontains=word))
        if tags:
            named |= Q(Exists(Tagging.objects.filter(trajectory=OuterRef("pk"), tag__name__icontains=word)))
        found = found.filter(named)
    return list(found.select_related("group", "run").only(*_INSERTED).order_by("-pk")[:limit])


_INSERTED = (
    "slug",
    "iteration",
    "status",
    "end",
    "lost_at",
    "turn_count",
    "action_count",
    "group__environment",
    "run__title",
)
"""What the list shows of each; group and run have columns of many kilobytes."""
