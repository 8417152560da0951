"""What can go wrong when a site is asked for something. Each message is a sentence for people."""

from __future__ import annotations

from typing import Any


class EchoscopeError(Exception):
    """Anything that keeps the client from doing what it was asked to."""


class Unreachable(EchoscopeError):
    """The site does not answer, or not as an Echoscope does."""


class Refused(EchoscopeError):
    """The site answered with an error."""

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
    """401: no token, or one that is not known any more."""


class Forbidden(Refused):
    """403: the token's scopes or its owner's role do not allow it."""


class NotFound(Refused):
    """404: it does not exist, or belongs to another team."""


class Conflict(Refused):
    """409: not in this state, or a key that was used for something else."""


class Invalid(Refused):
    """422: what was sent cannot be used; `fields` says where."""


class ServerError(Refused):
    """5xx: the site broke."""


KINDS = {401: NotAuthenticated, 403: Forbidden, 404: NotFound, 409: Conflict, 422: Invalid}


def refusal(status: int, error: dict[str, Any]) -> Refused:
    """The exception for an answer of the site."""
    kind = KINDS.get(status, ServerError if status >= 500 else Refused)
    return kind(
        status,
        str(error.get("code", "")),
        str(error.get("message", f"The site answered {status}.")),
        error.get("fields"),
        error.get("details"),
    )
