"""Cache headers of the API: its responses belong to the caller."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

PREFIX = "/api/"

View = Callable[[HttpRequest], HttpResponse]


def private_responses(get_response: View) -> View:
    """Keep responses of the API out of all caches unless they have a cache header; a middleware."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.path.startswith(PREFIX):
            response.headers.setdefault("Cache-Control", "private, no-store")
        return response

    return answer
