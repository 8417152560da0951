"""URL patterns that do what the fuzzer has to find."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path


def fails(request: HttpRequest) -> HttpResponse:
    raise LookupError(request.GET.get("q", "nothing"))


def breaks_off(request: HttpRequest) -> StreamingHttpResponse:
    def pieces() -> Iterator[bytes]:
        yield b"a beginning"
        raise OverflowError("too large")

    return StreamingHttpResponse(pieces())


def shows(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"<p>{request.GET.get('q')}</p>")


urlpatterns = [path("fails", fails), path("breaks", breaks_off), path("shows", shows)]
