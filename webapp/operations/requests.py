"""Middleware: timing, id and log line of every request; count of open websockets."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webapp.operations.logs import current_id, loggable_path
from webapp.operations.prometheus import REQUESTS, SOCKETS

logger = logging.getLogger("echoscope.requests")

HEADER = "X-Request-ID"
QUIET = {"alive", "ready", "figures"}
"""Views that are polled every few seconds; not logged."""
_ACCEPTABLE = re.compile(r"[\w.-]{8,64}")

View = Callable[[HttpRequest], HttpResponse]
Application = Callable[[Any, Any, Any], Awaitable[Any]]


def observe(get_response: View) -> View:
    """Measure the request and set its id: a new one, or the proxy's with ECHOSCOPE_TRUST_REQUEST_ID."""

    def answer(request: HttpRequest) -> HttpResponse:
        incoming = request.headers.get(HEADER, "") if settings.ECHOSCOPE_TRUST_REQUEST_ID else ""
        token = current_id.set(incoming if _ACCEPTABLE.fullmatch(incoming) else secrets.token_hex(8))
        began = time.perf_counter()
        try:
            response = get_response(request)
            _note(request, response, time.perf_counter() - began)
            response.headers.setdefault(HEADER, current_id.get())
            return response
        finally:
            current_id.reset(token)

    return answer


def _note(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    match = request.resolver_match
    view = (match.view_name or match.func.__name__) if match else "none"
    REQUESTS.labels(view, request.method or "", str(response.status_code)).observe(seconds)
    if view in QUIET:
        return
    path = loggable_path(request)
    logger.info(
        "%s %s %d",
        request.method,
        path,
        response.status_code,
        extra={
            "method": request.method,
            "path": path,
            "view": view,
            "status": response.status_code,
            "milliseconds": round(1000 * seconds, 1),
            "user": getattr(getattr(request, "user", None), "pk", None),
        },
    )


def counted(application: Application) -> Application:
    """An ASGI application that counts its open websockets."""

    async def count(scope: Any, receive: Any, send: Any) -> None:
        with SOCKETS.track_inprogress():
            await application(scope, receive, send)

    return count
