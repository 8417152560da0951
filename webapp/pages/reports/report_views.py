"""List of reports, a report as its readers see it, and the picture of its link."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe

from webapp.core.quotas import quota
from webapp.core.streaming import release_connection
from webapp.pages.trajectory_page import NO_FORMS
from webapp.reports.access import get_report, may_delete
from webapp.reports.document import document
from webapp.reports.excerpt import excerpt
from webapp.reports.models import Report
from webapp.reports.preview_picture import draw_report
from webapp.reports.references import own_hosts
from webapp.reports.report_queries import find
from webapp.teams.access import role_in_team, writable_teams
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership
from webapp.trajectories.render.drawing_queue import BUSY, DRAWINGS, RETRY_AFTER, DrawingBusy
from webapp.trajectories.render.preview import STYLE

REPORTS_PER_PAGE = 30
MAX_AGE = 300


@login_required
@require_GET
@never_cache
def reports(request: HttpRequest) -> HttpResponse:
    """Reports of the user's teams: `q` selects by words, `archived=1` the archived ones."""
    text, archived = request.GET.get("q", "")[:200], request.GET.get("archived") == "1"
    found = find(request.user, text, archived=archived)
    page = Paginator(found, REPORTS_PER_PAGE).get_page(request.GET.get("page"))
    hosts = own_hosts(request)
    rows = [(report, excerpt(report.body, hosts)) for report in page.object_list]
    writable = writable_teams(request.user)
    context = {
        "page": "reports",
        "page_obj": page,
        "rows": rows,
        "text": text,
        "archived": archived,
        "writer": bool(writable),
        "several_teams": len({report.team_id for report, _ in rows} | {team.pk for team in writable}) > 1,
    }
    return render(request, "reports/list.html", context)


@account_optional
@require_GET
@never_cache
def report(request: HttpRequest, slug: str) -> HttpResponse:
    """The report. Its embeds are what this reader may see."""
    found = get_report(request.user, slug)
    role = role_in_team(request.user, found.team_id)
    context = _body(request, found) | {
        "page": "reports",
        "report": found,
        "inside": role is not None,
        "writer": role in Membership.WRITERS,
        "may_delete": may_delete(request.user, found),
        "visibilities": Report.Visibility.choices,
        "address": request.build_absolute_uri(reverse("report", args=[slug])),
        "editors": _editors(found),
        "meta": _meta(request, found) if found.is_open else None,
    }
    if not request.user.is_authenticated:
        context |= NO_FORMS
    response = render(request, "reports/report.html", context)
    if found.visibility == Report.Visibility.PUBLIC:
        response["X-Robots-Tag"] = "all"
    return response


@account_optional
@require_GET
@never_cache
def report_blocks(request: HttpRequest, slug: str) -> HttpResponse:
    """The body alone, for open pages of reports whose runs go on."""
    return render(request, "reports/_blocks.html", _body(request, get_report(request.user, slug)))


@account_optional
@require_safe
def report_picture(request: HttpRequest, slug: str) -> HttpResponse:
    """Preview of the report's link in chats and social networks."""
    found = get_report(request.user, slug)
    byline = _byline(found)
    key = f"report-{STYLE}-{found.slug}-{found.version}-{byline}"
    picture = DRAWINGS.files.get(key)
    try:
        if picture is None:
            with DRAWINGS.place():
                words = excerpt(found.body, own_hosts(request))
                release_connection()
                picture = DRAWINGS.draw(key, lambda: draw_report(found.title, byline, words))
    except DrawingBusy:
        response = HttpResponse(BUSY, status=503, content_type="text/plain; charset=utf-8")
        response["Retry-After"] = str(RETRY_AFTER)
        return response
    response = HttpResponse(picture, content_type="image/png")
    response["Cache-Control"] = f"{'public' if found.is_open else 'private'}, max-age={MAX_AGE}"
    return response


def _body(request: HttpRequest, found: Report) -> dict[str, Any]:
    limit = quota("EMBEDS_PER_REPORT")
    return {"document": document(found.body, request.user, own_hosts(request), limit=limit)}


def _byline(found: Report) -> str:
    """Date, and for reports of the team alone its name: outsiders learn nothing of the team."""
    date = f"{found.edited_at:%-d %B %Y}"
    return f"Report · {date}" if found.is_open else f"{found.team.name} · {date}"


def _editors(found: Report) -> list[str]:
    """Names of those who saved a revision, without the report's author."""
    others = found.revisions.exclude(author=found.author_id).filter(author__isnull=False)
    return list(others.order_by("author__username").values_list("author__username", flat=True).distinct())


def _meta(request: HttpRequest, found: Report) -> dict[str, str]:
    """Metadata for previews of the link."""
    return {
        "title": found.title,
        "description": excerpt(found.body, own_hosts(request)) or "A report with live trajectories and curves.",
        "url": request.build_absolute_uri(reverse("report", args=[found.slug])),
        "picture": f"{request.build_absolute_uri(reverse('report-picture', args=[found.slug]))}?v={found.version}",
    }
