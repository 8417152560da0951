"""Sends static files in one piece: an ASGI server would collect a file's chunks before sending one, and warn."""

from __future__ import annotations

from contextlib import closing
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # it has no types
    """WhiteNoise with the whole file in its responses. The largest file has some hundred kilobytes."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        """Return the response to a request for a static file."""
        answer = static_file.get_response(request.method, request.META)
        content = b""
        if answer.file is not None:
            with closing(answer.file):
                content = answer.file.read()
        response = HttpResponse(content, status=HTTPStatus(answer.status))
        del response["Content-Type"]  # a response without content has none
        for name, value in answer.headers:
            response[name] = value
        return response
