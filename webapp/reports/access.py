"""Access to reports: members of the team read them, writers edit them, their author and admins delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.http import Http404

from webapp.reports.models import Report
from webapp.teams.access import may_delete, require_writer, role_in_team
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MISSING = "This report does not exist, or it belongs to a team you are not in."


def get_report(user: User | AnonymousUser, slug: str) -> Report:
    """Return a report that the user may read, with its team and author. Raises Http404."""
    report = Report.objects.visible_to(user).select_related("team", "author").filter(slug=slug).first()
    if report is None:
        raise Http404(MISSING)
    return report


def get_report_of_team(user: User | AnonymousUser, slug: str) -> Report:
    """Return the report like `get_report`, but only for members of its team, who also see versions. Raises Http404."""
    report = get_report(user, slug)
    if role_in_team(user, report.team_id) is None:
        raise Http404(MISSING)
    return report


def get_report_to_edit(user: User | AnonymousUser, slug: str) -> Report:
    """Return a report that the user may edit. Raises Http404, or PermissionDenied for viewers."""
    report = get_report_of_team(user, slug)
    require_writer(user, report.team_id)
    return report


def get_report_to_delete(user: User | AnonymousUser, slug: str) -> Report:
    """Return a report that the user may delete. Raises Http404 or PermissionDenied."""
    report = get_report_of_team(user, slug)
    if not may_delete(user, report.team_id, report.author_id):
        raise PermissionDenied("Only the author of this report and the admins of its team may delete it.")
    return report
