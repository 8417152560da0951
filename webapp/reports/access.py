"""Access to reports: members of the team read them, writers edit them, their author and admins delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.http import Http404

from webapp.reports.models import Report
from webapp.teams.access import require_writer, role_in_team
from webapp.teams.models import Membership, User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MISSING = "This report does not exist, or it belongs to a team you are not in."


def get_report(user: User | AnonymousUser, slug: str) -> Report:
    """The report of that slug if the user may read it, with its team and author. Raises Http404."""
    report = Report.objects.visible_to(user).select_related("team", "author").filter(slug=slug).first()
    if report is None:
        raise Http404(MISSING)
    return report


def get_report_of_team(user: User | AnonymousUser, slug: str) -> Report:
    """As get_report, but for members of its team only: a public report shows no revisions. Raises Http404."""
    report = get_report(user, slug)
    if role_in_team(user, report.team_id) is None:
        raise Http404(MISSING)
    return report


def get_report_to_edit(user: User | AnonymousUser, slug: str) -> Report:
    """The report, to change it. Raises Http404, or PermissionDenied for viewers."""
    report = get_report_of_team(user, slug)
    require_writer(user, report.team_id)
    return report


def may_delete(user: User | AnonymousUser, report: Report) -> bool:
    """Whether the user may delete the report: its author while a writer of the team, and the team's admins."""
    role = role_in_team(user, report.team_id)
    return role == Membership.Role.ADMIN or (role in Membership.WRITERS and report.author_id == user.pk)


def require_may_delete(user: User | AnonymousUser, report: Report) -> None:
    """Raise PermissionDenied for all others than may_delete."""
    if not may_delete(user, report):
        raise PermissionDenied("Only the author of this report and the admins of its team may delete it. Archive it.")
