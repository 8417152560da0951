"""Responses with pictures and animations that a visitor asks to be drawn."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response

from webapp.trajectories.render.drawing_queue import BUSY, RETRY_AFTER, DrawingBusy

MAX_AGE = 300
"""Cache lifetime in seconds: the longest time that a revoked link's pictures remain visible."""


def drawing_response(
    request: HttpRequest, key: str, content_type: str, draw: Callable[[], bytes], caching: str = "private"
) -> HttpResponse:
    """Return what `draw` makes, or the status 304 if the visitor has the drawing of that key, or 503 while many wait.

    Args:
        key: the drawing's ETag without quotation marks.
        draw: may raise DrawingBusy.
        caching: who may cache the drawing for MAX_AGE: `private` or `public`.
    """
    tag = f'"{key}"'
    unchanged = get_conditional_response(request, etag=tag)
    if unchanged is not None:
        return unchanged
    try:
        file = draw()
    except DrawingBusy:
        return HttpResponse(
            BUSY, status=503, content_type="text/plain; charset=utf-8", headers={"Retry-After": str(RETRY_AFTER)}
        )
    caching = f"{caching}, max-age={MAX_AGE}"
    return HttpResponse(file, content_type=content_type, headers={"ETag": tag, "Cache-Control": caching})
