"""List of reports, a report for its readers, and its versions."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.pages.trajectory_page import NO_FORMS
from webapp.reports.access import get_report, get_report_of_team
from webapp.reports.document import document
from webapp.reports.models import MAX_NUMBER, Report, Revision
from webapp.reports.references import own_hosts
from webapp.teams.access import may_delete, role_in_team, writable_teams
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership


@login_required
@require_GET
@never_cache
def reports(request: HttpRequest) -> HttpResponse:
    """Show the reports of the user's teams; `q` is a text search."""
    text = request.GET.get("q", "")[:200]
    matches = Report.objects.listed_for(request.user).containing(text).select_related("team", "author")
    page = Paginator(matches, 30).get_page(request.GET.get("page"))
    writable = writable_teams(request.user)
    context = {
        "page": "reports",
        "page_obj": page,
        "text": text,
        "writer": bool(writable),
    }
    return render(request, "reports/list.html", context)


@account_optional
@require_GET
@never_cache
def report(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a report, with the embeds that its reader may see."""
    return _page(request, get_report(request.user, slug))


@login_required
@require_GET
@never_cache
def report_revision(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show a version as it was saved."""
    report = get_report_of_team(request.user, slug)
    revision = report.revisions.select_related("author").filter(number=min(number, MAX_NUMBER)).first()
    if revision is None:
        raise Http404(f"This report has no version {number}.")
    return _page(request, report, revision)


def _page(request: HttpRequest, report: Report, revision: Revision | None = None) -> HttpResponse:
    """Show the newest version of a report, or an earlier one."""
    role = role_in_team(request.user, report.team_id)
    address = request.build_absolute_uri(reverse("report", args=[report.slug]))
    shown = revision or report
    blocks = document(shown.body, request.user, own_hosts(request))
    context: dict[str, Any] = {
        "page": "reports",
        "report": report,
        "revision": revision,
        "title": shown.title,
        "document": blocks,
        "closed": sum(not block.open for block in blocks),
        "inside": role is not None,
        "writer": role in Membership.WRITERS,
        "may_delete": may_delete(request.user, report.team_id, report.author_id),
        "address": address,
    }
    if report.is_open:
        context["meta"] = {"title": report.title, "description": report.excerpt or "A report.", "url": address}
    if not request.user.is_authenticated:
        context |= NO_FORMS
    response = render(request, "reports/report.html", context)
    if report.visibility == Report.Visibility.PUBLIC:
        response["X-Robots-Tag"] = "all"
    return response


@login_required
@require_GET
@never_cache
def report_history(request: HttpRequest, slug: str) -> HttpResponse:
    """Show all versions, newest first."""
    report = get_report_of_team(request.user, slug)
    revisions = report.revisions.select_related("author").defer("body")
    return render(request, "reports/history.html", {"page": "reports", "report": report, "revisions": revisions})
