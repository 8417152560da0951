"""Refuses requests with NUL characters before any query, because PostgreSQL cannot store them in texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict

MESSAGE = "This request contains a NUL character (%00), which no text of this site can hold. Remove it and try again."
API = "/api/"

View = Callable[[HttpRequest], HttpResponse]


def reject_nul(get_response: View) -> View:
    """Answer 400 to NUL in the path, the query, a cookie or a form; a middleware.

    The API checks its bodies itself: journals are streamed, and JSON is checked when it is parsed.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        if not _contains_nul(request):
            return get_response(request)
        if request.path.startswith(API):
            return JsonResponse({"error": {"code": "unreadable", "message": MESSAGE}}, status=400)
        return HttpResponse(MESSAGE, status=400, content_type="text/plain; charset=utf-8")

    return answer


def _contains_nul(request: HttpRequest) -> bool:
    if "\0" in request.path or _any_nul(request.COOKIES.values()) or _in_fields(request.GET):
        return True
    return request.method == "POST" and not request.path.startswith(API) and _in_fields(request.POST)


def _in_fields(fields: QueryDict) -> bool:
    return any("\0" in name or _any_nul(values) for name, values in fields.lists())


def _any_nul(texts: Iterable[Any]) -> bool:
    return any("\0" in str(text) for text in texts)


def in_json(value: Any) -> bool:
    """Return True if a text or a name anywhere in JSON or YAML data contains NUL."""
    match value:
        case str():
            return "\0" in value
        case Mapping():
            return any("\0" in str(name) or in_json(item) for name, item in value.items())
        case list():
            return any(in_json(item) for item in value)
    return False
