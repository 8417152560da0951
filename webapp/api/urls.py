"""URLs of the HTTP API."""

from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from django.urls import URLPattern, URLResolver, path, re_path
from django.views.decorators.csrf import csrf_exempt

from webapp.api.docs import reference
from webapp.api.errors import Problem, answer
from webapp.api.root import api

View = Callable[..., HttpResponseBase]


@csrf_exempt
def nothing(request: HttpRequest, rest: str = "") -> HttpResponseBase:
    """Return 404 as JSON for unknown paths."""
    return answer(Problem(404, "There is no such operation; see /api/docs."))


def _methods_in_json(view: View) -> View:
    """Return 405 responses as JSON instead of the library's plain text."""

    @wraps(view)
    def answered(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        response = view(request, *args, **kwargs)
        if isinstance(response, HttpResponseNotAllowed):
            allowed = ", ".join(sorted(response["Allow"].split(", ")))
            response = answer(Problem(405, f"{request.method} is not allowed here, only {allowed}."))
            response["Allow"] = allowed
        return response

    return answered


_operations, _, _ = _site = api.urls
for _pattern in _operations:
    assert _pattern.callback is not None
    _pattern.callback = _methods_in_json(_pattern.callback)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", nothing),
    path("docs", reference, name="api-docs"),
    path("", _site),
    re_path(r"^(?P<rest>.*)$", nothing, name="api-nothing"),
]
