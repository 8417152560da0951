"""Pages of 400, 403 and 404 that release their database connection.

Under ASGI Django renders them in threads of the event loop's executor, whose connections no request signal closes:
each thread would keep one of the pool, and fail with it once PostgreSQL has ended it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views import defaults
from django.views.decorators.csrf import requires_csrf_token

from webapp.core.database import connection_of_this_block
from webapp.pages.near_addresses import nearest_address

logger = logging.getLogger("echoscope.requests")

MIN_KEPT, MAX_KEPT = 12, 10
"""Length from which a posted text is shown to be copied, and maximum number of such texts."""
_SECRET = re.compile("csrf|password|token|secret|code", re.I)
"""Names of fields with contents that are not repeated."""
ErrorPage = Callable[[HttpRequest, Exception], HttpResponse]


def _releasing(page: ErrorPage, status: HTTPStatus) -> ErrorPage:
    """Wrap the page to return its status and a sentence if it fails, for example while the database restarts."""

    def rendered(request: HttpRequest, exception: Exception) -> HttpResponse:
        try:
            with connection_of_this_block():
                return page(request, exception)
        except Exception:
            logger.exception("The page of a %d could not be rendered: %s", status, request.path)
            text = f"{status.phrase}. The usual page could not be shown; the cause is in the server's log.\n"
            return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")

    return rendered


bad_request = _releasing(defaults.bad_request, HTTPStatus.BAD_REQUEST)
permission_denied = _releasing(defaults.permission_denied, HTTPStatus.FORBIDDEN)


def _not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    address = nearest_address(request)
    return redirect(address) if address else defaults.page_not_found(request, exception)


page_not_found = _releasing(_not_found, HTTPStatus.NOT_FOUND)


@requires_csrf_token
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Show the page for a form without a valid token: it was open for too long, or another site sent it.

    Typed texts are shown to be copied, but not to be sent again: another site may have written them.
    """
    typed = [text for name, text in request.POST.items() if len(text) >= MIN_KEPT and not _SECRET.search(name)]
    context = {"typed": typed[:MAX_KEPT], "cookies": not request.COOKIES}
    return render(request, "csrf_failure.html", context, status=HTTPStatus.FORBIDDEN)
