"""A report as a file: its Markdown, or one HTML file that needs nothing else."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.reports.access import get_report
from webapp.reports.html_file import html_file
from webapp.reports.references import own_hosts
from webapp.teams.decorators import account_optional
from webapp.trajectories.render.drawing_queue import BUSY, RETRY_AFTER, DrawingBusy


@account_optional
@require_GET
@never_cache
def report_export(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """`markdown` or `html`, with the embeds that the reader may see."""
    report = get_report(request.user, slug)
    if kind == "markdown":
        text = f"# {report.title}\n\n{report.body}\n"
        response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
        name = f"report-{slug}.md"
    elif kind == "html":
        try:
            text = html_file(report, request.user, own_hosts(request), request.build_absolute_uri("/"))
        except DrawingBusy:
            response = HttpResponse(BUSY, status=503, content_type="text/plain; charset=utf-8")
            response["Retry-After"] = str(RETRY_AFTER)
            return response
        response = HttpResponse(text, content_type="text/html; charset=utf-8")
        name = f"report-{slug}.html"
    else:
        raise Http404("Unknown format of a report. Available: markdown, html.")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response
