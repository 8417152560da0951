"""Lists of reports, and reports that embed a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import F, Q

from webapp.reports.models import Report, ReportQuerySet
from webapp.runs.models import Run
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_MENTIONS = 10


def find(user: User | AnonymousUser, text: str = "") -> ReportQuerySet:
    """Reports of the user's teams that contain every word of the text, most recently edited first."""
    reports = Report.objects.of_teams_of(user)
    for word in text.replace("\0", "").split()[:10]:
        reports = reports.filter(Q(title__icontains=word) | Q(body__icontains=word))
    return reports.select_related("team", "author").order_by("-edited_at", "-pk")


def mentioning(user: User | AnonymousUser, run: Run) -> list[Report]:
    """Reports that embed the run or one of its trajectories: of the user's teams, and public ones of the run's team."""
    public = Report.objects.filter(team=run.team_id, visibility=Report.Visibility.PUBLIC, deleted_at=None)
    found = (Report.objects.of_teams_of(user) | public).filter(runs=run)
    return list(found.order_by("-edited_at").only("slug", "title", "edited_at")[:MAX_MENTIONS])


def embedded_in_reports() -> Q:
    """Condition on trajectories: a report of their own team embeds it; those of other teams do not count."""
    embedded = Report.trajectories.through.objects.filter(trajectory__run__team=F("report__team"))
    return Q(pk__in=embedded.values("trajectory"))
