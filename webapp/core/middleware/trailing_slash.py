"""Addresses with a slash at the end, which a mail program or a person added: they lead to the page without it."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import is_valid_path

View = Callable[[HttpRequest], HttpResponse]


def drop_trailing_slash(get_response: View) -> View:
    """Middleware that redirects GET requests whose path is known only without its last slash."""

    def answer(request: HttpRequest) -> HttpResponse:
        shorter = request.path_info.rstrip("/")
        if (
            request.method in ("GET", "HEAD")
            and request.path_info.endswith("/")
            and is_valid_path(shorter)
            and not is_valid_path(request.path_info)
        ):
            query = request.META.get("QUERY_STRING", "")
            return HttpResponsePermanentRedirect(f"/{shorter.lstrip('/')}" + (f"?{query}" if query else ""))
        return get_response(request)

    return answer
