"""Error responses of the API: one JSON schema for all errors, with a message that says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, RawPostDataException
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import Field

from trainer.config.files import as_messages
from webapp.annotations.actions import AnnotationRefused
from webapp.core.output_budget import OutputBudget
from webapp.core.quotas import QuotaExceeded
from webapp.runs.actions import RequestRefused
from webapp.trajectories.exports.download_refused import DownloadRefused
from webapp.trajectories.render.drawing_queue import RETRY_AFTER

NO_CREDENTIALS = (
    "Authentication required: send the header “Authorization: Bearer <token>” with an API token of your team, or use "
    "the cookie of a logged-in browser."
)
MAX_PROBLEMS = 16_000
"""Characters of the names and errors of fields in a response: a request may have an error in every few bytes."""
CODES = {
    400: "unreadable",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    415: "not_json",
    422: "invalid",
    429: "rate_limited",
    503: "busy",
}


class ErrorBody(Schema):
    """An error: what is wrong and what to do."""

    code: str = Field(description="Stable identifier, for programs.")
    message: str = Field(description="For users: what happened, what was kept, what to do next.")
    fields: dict[str, str] | None = Field(default=None, description="Dotted name of a parameter or field → its error.")
    details: dict[str, Any] | None = Field(default=None, description="Machine-readable details.")


class ErrorOut(Schema):
    """Body of every error response."""

    error: ErrorBody


class Problem(Exception):
    """An error response: status, code and message."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        fields: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.code = code or CODES.get(status, "error")
        self.fields, self.details = fields, details


def invalid(fields: Mapping[str, str]) -> Problem:
    """Return a 422 response about as many of the fields as fit in MAX_PROBLEMS characters; a single long one is cut."""
    budget = OutputBudget(MAX_PROBLEMS)
    shown = {name: text for name, text in fields.items() if budget.take(len(name) + len(text))}
    if fields and not shown:
        name, text = next(iter(fields.items()))
        shown = {name[: MAX_PROBLEMS // 2]: f"{text[: MAX_PROBLEMS // 2]} …"}
    problems = "; ".join(f"{name} {text}" if name else text for name, text in shown.items())
    more = f" There are {len(fields) - len(shown):,} further problems." if len(shown) < len(fields) else ""
    return Problem(422, f"Invalid request: {problems}.".replace("..", ".") + more, fields=shown)


def refused(*codes: int) -> dict[int, Any]:
    """Return the documented error responses of an operation: the common ones and `codes`."""
    return dict.fromkeys(sorted({400, 401, 403, 404, 422, 429, *codes}), ErrorOut)


def answer(problem: Problem) -> JsonResponse:
    body: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.fields:
        body["fields"] = dict(problem.fields)
    if problem.details:
        body["details"] = dict(problem.details)
    response = JsonResponse({"error": body}, status=problem.status)
    if problem.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="Echoscope"'
    return response


def errors_by_field(errors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return Ninja's validation errors by the name of the parameter or field in the request."""
    messages: dict[str, str] = {}
    for where, text in as_messages(errors):
        parts = where.split(".")
        path = parts[2:] if parts[0] in ("body", "query", "path", "header", "form", "file") else parts
        messages.setdefault(".".join(path) or parts[-1], text)
    return messages


def _http_problem(error: HttpError) -> Problem:
    if isinstance(error.__cause__, Problem):  # the parser's
        return error.__cause__
    message = "The body is not JSON. Send one JSON object." if error.status_code == 400 else error.message
    return Problem(error.status_code, message)


PROBLEMS: dict[type[Exception], Callable[[Any], Problem]] = {
    Problem: lambda error: error,
    ValidationError: lambda error: invalid(errors_by_field(error.errors)),
    Http404: lambda error: Problem(404, str(error) or "Not found, or it belongs to a team you are not in."),
    PermissionDenied: lambda error: Problem(403, str(error) or "You are not allowed to do this."),
    AuthenticationError: lambda error: Problem(401, NO_CREDENTIALS, code="not_authenticated"),
    HttpError: _http_problem,
    RequestRefused: lambda error: Problem(409, str(error), code="refused"),
    RawPostDataException: lambda error: Problem(
        415, "This operation takes JSON, not a form: send it as application/json."
    ),
    AnnotationRefused: lambda error: Problem(422, str(error)),
    QuotaExceeded: lambda error: Problem(409, str(error), code="quota"),
    RequestDataTooBig: lambda error: Problem(
        413, "The body is too large for this operation. Send it in smaller parts."
    ),
}
"""Exceptions of operations, and the problem that is their response."""


def install(api: NinjaAPI) -> None:
    """Register handlers that turn exceptions into error responses."""
    for kind, make_problem in PROBLEMS.items():
        api.exception_handler(kind)(partial(_respond, make_problem))
    api.exception_handler(DownloadRefused)(_refuse_download)


def _respond(make_problem: Callable[[Any], Problem], request: HttpRequest, error: Exception) -> HttpResponse:
    return answer(make_problem(error))


def _refuse_download(request: HttpRequest, error: DownloadRefused) -> HttpResponse:
    response = answer(Problem(error.status, str(error)))
    if error.status == 503:
        response["Retry-After"] = str(RETRY_AFTER)
    return response
