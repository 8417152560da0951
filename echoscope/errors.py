"""Exceptions of the client. Messages are written for users."""

from __future__ import annotations

from typing import Any


class EchoscopeError(Exception):
    """Base class of all errors of the client."""


class InvalidAddress(EchoscopeError, ValueError):
    """An address that cannot be a site's: without http:// or https://, or without a host."""


class Unreachable(EchoscopeError):
    """No response, or not from an Echoscope site."""


class Refused(EchoscopeError):
    """Error response of the site."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        fields: dict[str, str] | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.fields: dict[str, str] = fields or {}
        self.details: dict[str, Any] = details or {}


class NotAuthenticated(Refused):
    """401: no token, or an unknown one."""


class Forbidden(Refused):
    """403: not allowed by the token's scopes or its owner's role."""


class NotFound(Refused):
    """404: does not exist, or belongs to another team."""


class Conflict(Refused):
    """409: not possible in this state, or a key that was used for another request."""


class Invalid(Refused):
    """422: invalid input; `fields` has the problem of each field."""


class ServerError(Refused):
    """5xx: internal error of the site."""


KINDS = {401: NotAuthenticated, 403: Forbidden, 404: NotFound, 409: Conflict, 422: Invalid}


def refusal(status: int, error: dict[str, Any]) -> Refused:
    """Return the exception for an error response of the site."""
    kind = KINDS.get(status, ServerError if status >= 500 else Refused)
    return kind(
        status,
        str(error.get("code", "")),
        str(error.get("message", f"The site responded with status {status}.")),
        error.get("fields"),
        error.get("details"),
    )
