"""Log format: a readable line, or a JSON object for log collectors (ECHOSCOPE_LOG_FORMAT=json)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

from django.http import HttpRequest
from django.urls import Resolver404, ResolverMatch, URLResolver, get_resolver, resolve
from django.utils.encoding import escape_uri_path

current_id: ContextVar[str] = ContextVar("current_id", default="")
"""Id of the current request, for its log lines."""


class RequestId(logging.Filter):
    """Adds the id of the current request; empty outside requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = current_id.get()
        return True


FILTERS = ["request_id", "secret_paths"]
SECRET_PARAMETERS = frozenset({"token", "key"})
"""Parameters of URLs that give access to their page; readers of a log must not see them."""


def loggable_path(request: HttpRequest) -> str:
    """Return the path of a request, or its route's pattern if the path contains a secret.

    A path without a route may be a mistyped path with a secret: only the part before the secret is shown.
    """
    match = request.resolver_match or _match(request.path_info)  # unresolved: redirected to HTTPS, or mistyped
    if match is not None and not SECRET_PARAMETERS.isdisjoint(match.kwargs):
        return f"/{match.route.removeprefix('^')}"
    prefix = max(
        (secret_prefix for secret_prefix in secret_prefixes() if request.path_info.startswith(secret_prefix)),
        key=len,
        default="",
    )
    if match is not None and len(_fixed(match.route)) >= len(prefix) - 1:
        return request.path  # its route is specific, not one that matches everything else
    return f"{prefix}…" if prefix else request.path


def secret_prefixes() -> frozenset[str]:
    """Return the fixed beginnings of all routes that contain a secret, such as `/s/`."""
    return _secret_prefixes(get_resolver())


@cache
def _secret_prefixes(resolver: URLResolver) -> frozenset[str]:
    return frozenset(f"/{_fixed(route)}" for route, names in _routes(resolver) if names & SECRET_PARAMETERS)


def _fixed(route: str) -> str:
    """Return a route up to its first parameter."""
    return re.split(r"<|\(", route.replace("^", ""), maxsplit=1)[0]


def _routes(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """Yield (route, names of its parameters) of all patterns."""
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern).removeprefix("^")
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern, route)
        else:
            yield route, frozenset(pattern.pattern.regex.groupindex)


def _match(path: str) -> ResolverMatch | None:
    try:
        return resolve(path.rstrip("/"))
    except Resolver404:
        return None


class SecretPaths(logging.Filter):
    """Replaces such a path in Django's messages about a request, as in "Not Found: /s/…"."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        if isinstance(request, HttpRequest) and isinstance(record.args, tuple):
            shown = loggable_path(request)
            if shown != request.path:
                paths = {request.path, request.get_full_path(), escape_uri_path(request.path)}
                record.args = tuple(shown if argument in paths else argument for argument in record.args)
                record.request = shown  # the formatter would write the request with its path
        return True


class ShortRefusals(logging.Filter):
    """Removes the traceback of refused requests (4xx): visitors cause them, and the line names path and reason."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", 500) < 500:
            record.exc_info = record.exc_text = None
        return True


def configuration(format: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING setting. Raises ValueError for an unknown format."""
    if format not in {"line", "json"}:
        raise ValueError(f"ECHOSCOPE_LOG_FORMAT must be line or json, not {format!r}.")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {
            "request_id": {"()": RequestId},
            "secret_paths": {"()": SecretPaths},
            "short_refusals": {"()": ShortRefusals},
        },
        "formatters": {
            "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
            "json": {
                "()": "pythonjsonlogger.json.JsonFormatter",
                "format": "{asctime}{levelname}{name}{message}{request_id}",
                "style": "{",
                "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
            },
        },
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": format, "filters": FILTERS}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {  # one line per request only for log collectors
            "echoscope.requests": {"level": "INFO" if format == "json" else "WARNING"},
            "django.request": {"filters": ["short_refusals"]},
            "httpx": {"level": "WARNING"},
        },
    }
