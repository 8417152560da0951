"""A study as a file: Markdown, SVG or CSV."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.studies.access import get_study
from webapp.studies.seen_study import exported, seen_by
from webapp.studies.study_export import FORMATS
from webapp.teams.decorators import account_optional


@account_optional
@require_GET
@never_cache
def study_export(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    """`markdown`, `svg` or `csv`, with the runs that the reader may see."""
    study = get_study(request.user, slug)
    if kind not in FORMATS:
        raise Http404(f"Unknown format of a study. Available: {', '.join(FORMATS)}.")
    text = exported(seen_by(request.user, study), kind, request.build_absolute_uri)
    media, ending = FORMATS[kind]
    response = HttpResponse(text, content_type=f"{media}; charset=utf-8")
    name = f"study-{slug}.{ending}"
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response
