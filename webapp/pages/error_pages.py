"""Pages of 400, 403 and 404 that give their database connection back.

Under ASGI Django renders them in threads of the event loop's executor, whose connections no signal of a request closes:
each thread would keep one of the pool, and go on failing with it once PostgreSQL has ended it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from webapp.core.database import connection_of_this_block

logger = logging.getLogger("echoscope.requests")

ErrorPage = Callable[[HttpRequest, Exception], HttpResponse]


def _releasing(page: ErrorPage, status: HTTPStatus) -> ErrorPage:
    """The page; its status and a sentence if the page itself fails, for example while the database restarts."""

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
page_not_found = _releasing(defaults.page_not_found, HTTPStatus.NOT_FOUND)
