"""Revisions of a report: who changed what when, and going back."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.core.quotas import QuotaExceeded, quota
from webapp.reports.access import get_report_of_team, get_report_to_edit
from webapp.reports.actions import EditConflict, ReportRefused, do_restore_revision
from webapp.reports.document import document
from webapp.reports.line_diff import line_diff
from webapp.reports.models import Report, Revision
from webapp.reports.references import own_hosts
from webapp.teams.access import role_in_team, signed_in
from webapp.teams.models import Membership

REVISIONS_PER_PAGE = 50


@login_required
@require_GET
@never_cache
def report_history(request: HttpRequest, slug: str) -> HttpResponse:
    """All revisions, newest first."""
    report = get_report_of_team(request.user, slug)
    revisions = report.revisions.select_related("author").defer("body")
    page = Paginator(revisions, REVISIONS_PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": "reports", "report": report, "page_obj": page, "revisions": page.object_list}
    return render(request, "reports/history.html", context)


@login_required
@require_GET
@never_cache
def report_revision(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """A revision, and what it changed."""
    report = get_report_of_team(request.user, slug)
    revision = _revision(report, number)
    before = report.revisions.filter(number__lt=revision.number).first()
    context = {
        "page": "reports",
        "report": report,
        "revision": revision,
        "before": before,
        "changes": line_diff(before.body, revision.body) if before else [],
        "document": document(revision.body, request.user, own_hosts(request), limit=quota("EMBEDS_PER_REPORT")),
        "writer": role_in_team(request.user, report.team_id) in Membership.WRITERS,
    }
    return render(request, "reports/revision.html", context)


@login_required
@require_POST
def report_restore(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Save the revision again as the newest one."""
    report = get_report_to_edit(request.user, slug)
    _revision(report, number)
    try:
        do_restore_revision(report, signed_in(request), number, own_hosts(request))
        messages.success(request, f"Version {number} is restored. The versions since then are kept.")
    except (EditConflict, ReportRefused, QuotaExceeded) as refusal:
        messages.warning(request, str(refusal))
        return redirect("report-history", slug)
    return redirect("report", slug)


def _revision(report: Report, number: int) -> Revision:
    if number > 2**31 - 1:
        raise Http404("This report has no such version.")
    revision: Revision = get_object_or_404(report.revisions.select_related("author"), number=number)
    return revision
