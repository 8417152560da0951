"""Writing a report: form, preview, the picker of embeds, and what is done with a report as a whole."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.core.quotas import QuotaExceeded, quota
from webapp.reports.access import (
    get_report_of_team,
    get_report_to_edit,
    require_may_delete,
)
from webapp.reports.actions import (
    EditConflict,
    ReportRefused,
    check_length,
    do_archive_report,
    do_create_report,
    do_delete_report,
    do_edit_report,
    do_set_visibility,
)
from webapp.reports.document import document
from webapp.reports.line_diff import line_diff
from webapp.reports.models import MAX_TITLE_LENGTH, Report
from webapp.reports.references import own_hosts
from webapp.reports.report_queries import insertable_runs, insertable_trajectories
from webapp.runs.access import get_run
from webapp.teams.access import READ_ONLY, signed_in, team_to_write_in, writable_teams
from webapp.teams.undo_notice import offer_undo
from webapp.trajectories.sharing.public import outcome_of

MAX_DIGITS = 9


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def report_new(request: HttpRequest) -> HttpResponse:
    """The form of a new report; `?insert=<address>` begins it with an embed."""
    slug = request.POST.get("team", "") or request.GET.get("team", "")
    team = team_to_write_in(request.user, slug, "There is no such team, or you may not write reports in it.")
    insert = request.GET.get("insert", "")
    values = {
        "title": request.POST.get("title", ""),
        "body": request.POST.get("body", f"{insert}\n" if insert.startswith("/") else ""),
    }
    errors: dict[str, str] = {}
    if request.method == "POST":
        try:
            made = do_create_report(
                team, signed_in(request), values["title"], values["body"], own_hosts(request), _visibility(request)
            )
        except (ReportRefused, QuotaExceeded) as refusal:
            errors[getattr(refusal, "field", "body")] = str(refusal)
        else:
            messages.success(request, "Report created.")
            return redirect("report", made.slug)
    visibility = request.POST.get("visibility", "team")
    return _form(request, values, errors, teams=writable_teams(request.user), team=team, visibility=visibility)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def report_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """The form of a report. A second editor sees what was saved meanwhile, and keeps their text."""
    report = get_report_to_edit(request.user, slug)
    values: dict[str, Any] = {"title": report.title, "body": report.body}
    version, errors, context = report.version, {}, {}
    if request.method == "POST":
        values = {"title": request.POST.get("title", ""), "body": request.POST.get("body", "")}
        sent = request.POST.get("version", "")
        version = int(sent) if sent.isascii() and sent.isdigit() and len(sent) <= MAX_DIGITS else 0
        try:
            do_edit_report(report, signed_in(request), **values, version=version, hosts=own_hosts(request))
        except (ReportRefused, QuotaExceeded) as refusal:
            errors[getattr(refusal, "field", "body")] = str(refusal)
        except EditConflict as conflict:
            version = conflict.current.version
            context = {"conflict": conflict, "changes": line_diff(conflict.current.body, values["body"])}
        else:
            messages.success(request, "Saved.")
            return redirect("report", slug)
    return _form(request, values, errors, report=report, team=report.team, version=version, **context)


def _form(request: HttpRequest, values: dict[str, Any], errors: dict[str, str], **context: Any) -> HttpResponse:
    body = values["body"].replace("\r\n", "\n")
    limit = quota("EMBEDS_PER_REPORT")
    context |= {
        "page": "reports",
        "title": values["title"],
        "body": body,
        "errors": errors,
        "document": document(body, request.user, own_hosts(request), limit=limit) if "body" not in errors else None,
        "visibilities": Report.Visibility.choices,
        "longest_title": MAX_TITLE_LENGTH,
        "longest_body": quota("REPORT_CHARACTERS") or "",
    }
    status = 409 if "conflict" in context else 422 if errors else 200
    return render(request, "reports/edit.html", context, status=status)


def _visibility(request: HttpRequest) -> Report.Visibility:
    """The chosen visibility. Raises ReportRefused for an unknown one."""
    value = request.POST.get("visibility", Report.Visibility.TEAM)
    if value not in Report.Visibility.values:
        raise ReportRefused("Choose who may read the report.", "visibility")
    return Report.Visibility(value)


@login_required
@require_POST
@never_cache
def report_preview(request: HttpRequest) -> HttpResponse:
    """A body as its writer would see it."""
    if not writable_teams(request.user):
        raise PermissionDenied(READ_ONLY)
    body = request.POST.get("body", "")
    try:
        check_length(body)
    except QuotaExceeded as refusal:
        return HttpResponse(str(refusal), status=422, content_type="text/plain; charset=utf-8")
    limit = quota("EMBEDS_PER_REPORT")
    return render(
        request, "reports/_blocks.html", {"document": document(body, request.user, own_hosts(request), limit=limit)}
    )


@login_required
@require_GET
@never_cache
def report_insert(request: HttpRequest) -> HttpResponse:
    """Runs and trajectories to insert: `q` searches, `run` lists those of a run."""
    text = request.GET.get("q", "")[:200]
    slug = request.GET.get("run", "")
    run = get_run(request.user, slug) if slug else None
    trajectories = insertable_trajectories(request.user, run, text)
    context = {
        "run": run,
        "text": text,
        "runs": [] if run else insertable_runs(request.user, text),
        "trajectories": [(one, outcome_of(one)) for one in trajectories],
    }
    return render(request, "reports/_insert.html", context)


@login_required
@require_POST
def report_visibility(request: HttpRequest, slug: str) -> HttpResponse:
    """Set who may read it."""
    report = get_report_to_edit(request.user, slug)
    try:
        do_set_visibility(report, _visibility(request))
        messages.success(request, f"Readers: {report.get_visibility_display()}.")
    except ReportRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("report", slug)


@login_required
@require_POST
def report_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Archive it, or put it back into the list with `archived` empty."""
    archived = bool(request.POST.get("archived"))
    do_archive_report(get_report_to_edit(request.user, slug), archived)
    messages.success(request, "Archived: the list no longer shows it." if archived else "Back in the list.")
    return redirect("report", slug)


@login_required
@require_POST
def report_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete it. The next page offers to undo it."""
    report = get_report_of_team(request.user, slug)
    require_may_delete(request.user, report)
    offer_undo(request, f"Report “{report.title}” deleted.", do_delete_report(report, signed_in(request)))
    return redirect("reports")
