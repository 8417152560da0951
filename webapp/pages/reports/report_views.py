"""List of reports, a report as its readers see it, and its versions."""

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
from webapp.reports.access import get_report, get_report_of_team, may_delete
from webapp.reports.document import document
from webapp.reports.models import MAX_NUMBER, Report
from webapp.reports.references import own_hosts
from webapp.reports.report_queries import find
from webapp.teams.access import role_in_team, writable_teams
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership

REPORTS_PER_PAGE = 30


@login_required
@require_GET
@never_cache
def reports(request: HttpRequest) -> HttpResponse:
    """Reports of the user's teams: `q` selects by words."""
    text = request.GET.get("q", "")[:200]
    page = Paginator(find(request.user, text), REPORTS_PER_PAGE).get_page(request.GET.get("page"))
    writable = writable_teams(request.user)
    deleted = Report.objects.filter(slug=request.GET.get("deleted", ""), deleted_at__isnull=False, team__in=writable)
    context = {
        "page": "reports",
        "page_obj": page,
        "text": text,
        "writer": bool(writable),
        "several_teams": len({report.team_id for report in page.object_list} | {team.pk for team in writable}) > 1,
        "deleted": deleted.first(),
    }
    return render(request, "reports/list.html", context)


@account_optional
@require_GET
@never_cache
def report(request: HttpRequest, slug: str) -> HttpResponse:
    """The report. Its embeds are what this reader may see."""
    found = get_report(request.user, slug)
    role = role_in_team(request.user, found.team_id)
    address = request.build_absolute_uri(reverse("report", args=[slug]))
    context: dict[str, Any] = {
        "page": "reports",
        "report": found,
        "document": document(found.body, request.user, own_hosts(request)),
        "inside": role is not None,
        "writer": role in Membership.WRITERS,
        "may_delete": may_delete(request.user, found),
        "address": address,
    }
    if found.is_open:
        context["meta"] = {"title": found.title, "description": found.excerpt or "A report.", "url": address}
    if not request.user.is_authenticated:
        context |= NO_FORMS
    response = render(request, "reports/report.html", context)
    if found.visibility == Report.Visibility.PUBLIC:
        response["X-Robots-Tag"] = "all"
    return response


@login_required
@require_GET
@never_cache
def report_history(request: HttpRequest, slug: str) -> HttpResponse:
    """All versions, newest first."""
    report = get_report_of_team(request.user, slug)
    page = Paginator(report.revisions.select_related("author").defer("body"), 50).get_page(request.GET.get("page"))
    context = {"page": "reports", "report": report, "page_obj": page, "revisions": page.object_list}
    return render(request, "reports/history.html", context)


@login_required
@require_GET
@never_cache
def report_revision(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """A version as it was saved."""
    report = get_report_of_team(request.user, slug)
    revision = report.revisions.select_related("author").filter(number=min(number, MAX_NUMBER)).first()
    if revision is None:
        raise Http404(f"This report has no version {number}.")
    context = {
        "page": "reports",
        "report": report,
        "revision": revision,
        "document": document(revision.body, request.user, own_hosts(request)),
        "writer": role_in_team(request.user, report.team_id) in Membership.WRITERS,
    }
    return render(request, "reports/revision.html", context)
