"""Endpoints of reports: list, create, read, change."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from ninja import Query, Router, Schema, Status
from pydantic import Field

from webapp.api import cursors
from webapp.api.auth import Caller, caller
from webapp.api.errors import Problem, invalid, refused
from webapp.api.schemas.report_schemas import NewReport, ReportDetail, ReportOut, ReportPage, ReportPatch, ReportSlug
from webapp.api.schemas.shared_schemas import Cursor, Limit, Text
from webapp.reports.actions import EditConflict, ReportRefused, do_create_report, do_edit_report
from webapp.reports.models import Report
from webapp.reports.references import own_hosts
from webapp.teams.access import require_writer, role_in_team

router = Router(tags=["reports"])


class ReportFilter(Schema):
    """Filters of the list of reports."""

    text: Text | None = Field(None, description="Part of the title or of the text.")
    limit: Limit = 30
    cursor: Cursor = None


@router.get("/reports", response={200: ReportPage} | refused(), operation_id="list_reports", summary="List reports")
def list_reports(request: HttpRequest, filters: Query[ReportFilter]) -> ReportPage:
    """Reports of your teams (with a token: of its team), newest first."""
    requester = caller(request)
    reports = Report.objects.listed_for(requester.user).select_related("team", "author").defer("body")
    if requester.team is not None:
        reports = reports.filter(team=requester.team)
    if filters.text:
        reports = reports.containing(filters.text)
    page, following = cursors.newest_first(reports, "reports", filters.cursor, filters.limit)
    out = [ReportOut.model_validate(_report(request, report)) for report in page]
    return ReportPage(items=out, next_cursor=following)


@router.post(
    "/reports", response={201: ReportDetail} | refused(409), operation_id="create_report", summary="Write a report"
)
def create_report(request: HttpRequest, payload: NewReport) -> Status[ReportDetail]:
    """Create a report with its text in Markdown."""
    requester = caller(request)
    team = requester.team_to_write_in(payload.team)
    text = payload.title, payload.body, own_hosts(request)
    try:
        report = do_create_report(team, requester.user, *text, visibility=payload.visibility)
    except ReportRefused as refusal:
        raise invalid({refusal.field: str(refusal)}) from None
    return Status(201, _detail(request, report))


@router.get(
    "/reports/{slug}", response={200: ReportDetail} | refused(), operation_id="get_report", summary="Read a report"
)
def get_report(request: HttpRequest, slug: ReportSlug) -> ReportDetail:
    """The report with its text."""
    return _detail(request, _find(caller(request), slug))


@router.patch(
    "/reports/{slug}",
    response={200: ReportDetail} | refused(409),
    operation_id="update_report",
    summary="Change a report",
)
def update_report(request: HttpRequest, slug: ReportSlug, payload: ReportPatch) -> ReportDetail:
    """Change title, text or visibility. Text is saved only over the version that you read."""
    requester = caller(request)
    report = _find(requester, slug)
    require_writer(requester.user, report.team_id)
    if payload.version is None and (payload.title is not None or payload.body is not None):
        raise invalid({"version": "is required with a title or a body: the version that you read"})
    try:
        do_edit_report(
            report,
            requester.user,
            report.title if payload.title is None else payload.title,
            report.body if payload.body is None else payload.body,
            own_hosts(request),
            version=payload.version or report.version,
            visibility=payload.visibility or "",
        )
    except EditConflict as conflict:
        advice = f"{conflict} Read version {conflict.version}, and send your change again."
        raise Problem(409, advice, code="conflict", details={"version": conflict.version}) from None
    except ReportRefused as refusal:
        raise invalid({refusal.field: str(refusal)}) from None
    return _detail(request, _find(requester, slug))


def _find(requester: Caller, slug: str) -> Report:
    """Return the report of that slug if the caller may read it. Raises Problem 404."""
    visible = Report.objects.visible_to(requester.user).select_related("team", "author")
    return requester.find(visible, slug, "report")


def _report(request: HttpRequest, report: Report) -> dict[str, Any]:
    inside = role_in_team(caller(request).user, report.team_id) is not None
    return {
        "slug": report.slug,
        "url": request.build_absolute_uri(reverse("report", args=[report.slug])),
        "title": report.title,
        "team": {"slug": report.team.slug, "name": report.team.name} if inside else None,
        "author": report.author.username if report.author and inside else None,
        "visibility": report.visibility,
        "version": report.version,
        "created_at": report.created_at,
        "edited_at": report.edited_at,
    }


def _detail(request: HttpRequest, report: Report) -> ReportDetail:
    return ReportDetail.model_validate(_report(request, report) | {"body": report.body})
