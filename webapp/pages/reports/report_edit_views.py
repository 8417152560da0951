"""Editing of a report: the form with its preview, restoring a version, and deleting the report."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from webapp.core.quotas import QuotaExceeded, quota
from webapp.reports.access import get_report_to_delete, get_report_to_edit
from webapp.reports.actions import (
    EditConflict,
    ReportRefused,
    check_length,
    do_create_report,
    do_delete_report,
    do_edit_report,
    do_restore_revision,
)
from webapp.reports.document import document
from webapp.reports.models import MAX_NUMBER, MAX_TITLE_LENGTH, Report, Revision
from webapp.reports.references import own_hosts
from webapp.teams.access import READ_ONLY, signed_in, team_to_write_in, writable_teams
from webapp.teams.undo_notice import offer_undo


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def report_form(request: HttpRequest, slug: str = "") -> HttpResponse:
    """Show and save the form of a report, or of a new one without `slug`. A refused text is kept, with the reason."""
    report = get_report_to_edit(request.user, slug) if slug else None
    team_slug = request.POST.get("team", "") or request.GET.get("team", "")
    missing = "There is no such team, or you may not write reports in it."
    team = report.team if report else team_to_write_in(request.user, team_slug, missing)
    sent, now = request.POST, report or Report(title="", body="", version=0)
    number = sent.get("version", "")
    context: dict[str, Any] = {
        "title": sent.get("title", now.title),
        "body": sent.get("body", now.body).replace("\r\n", "\n"),
        "visibility": sent.get("visibility", now.visibility),
        "version": int(number) if number.isascii() and number.isdigit() and len(number) < 10 else now.version,
    }
    status = 200
    if request.method == "POST":
        saved: list[Any] = [signed_in(request), context["title"], context["body"], own_hosts(request)]
        try:
            if report:
                do_edit_report(report, *saved, version=context["version"], visibility=context["visibility"])
            else:
                slug = do_create_report(team, *saved, visibility=context["visibility"]).slug
        except (ReportRefused, QuotaExceeded) as refusal:
            context["errors"], status = {getattr(refusal, "field", "body"): str(refusal)}, 422
        except EditConflict as conflict:
            context |= {"conflict": conflict, "version": conflict.version}
            status = 409
        else:
            messages.success(request, "Saved.")
            return redirect("report", slug)
    context |= {
        "page": "reports",
        "report": report,
        "team": team,
        "teams": writable_teams(request.user),
        "document": None if status == 422 else document(context["body"], request.user, own_hosts(request)),
        "visibilities": Report.Visibility.choices,
        "longest_title": MAX_TITLE_LENGTH,
        "longest_body": quota("REPORT_CHARACTERS") or "",
    }
    return render(request, "reports/edit.html", context, status=status)


@login_required
@require_POST
@never_cache
def report_preview(request: HttpRequest) -> HttpResponse:
    """Show a body as its author would see it."""
    if not writable_teams(request.user):
        raise PermissionDenied(READ_ONLY)
    body = request.POST.get("body", "")
    try:
        check_length(body)
    except QuotaExceeded as refusal:
        return HttpResponse(str(refusal), status=422, content_type="text/plain; charset=utf-8")
    return render(request, "reports/_blocks.html", {"document": document(body, request.user, own_hosts(request))})


@login_required
@require_POST
def report_restore(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Save an earlier version again as the newest one."""
    report = get_report_to_edit(request.user, slug)
    try:
        do_restore_revision(report, signed_in(request), min(number, MAX_NUMBER), own_hosts(request))
    except Revision.DoesNotExist:
        raise Http404(f"This report has no version {number}.") from None
    except (EditConflict, ReportRefused, QuotaExceeded) as refusal:
        messages.warning(request, str(refusal))
        return redirect("report-history", slug)
    messages.success(request, f"Version {number} is restored. The versions since then are kept.")
    return redirect("report", slug)


@login_required
@require_POST
def report_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete the report. The next page offers to undo it."""
    report = get_report_to_delete(request.user, slug)
    offer_undo(request, f"Report “{report.title}” deleted.", do_delete_report(report, signed_in(request)))
    return redirect("reports")
