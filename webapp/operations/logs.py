"""Log format: a readable line, or a JSON object for log collectors (ECHOSCOPE_LOG_FORMAT=json)."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

current_id: ContextVar[str] = ContextVar("current_id", default="")
"""Id of the current request, for its log lines."""


class RequestId(logging.Filter):
    """Adds the id of the current request; empty outside requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = current_id.get()
        return True


def configuration(format: str, level: str) -> dict[str, Any]:
    """Django's LOGGING setting. Raises ValueError for an unknown format."""
    if format not in {"line", "json"}:
        raise ValueError(f"ECHOSCOPE_LOG_FORMAT must be line or json, not {format!r}.")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request_id": {"()": RequestId}},
        "formatters": {
            "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
            "json": {
                "()": "pythonjsonlogger.json.JsonFormatter",
                "format": "{asctime}{levelname}{name}{message}{request_id}",
                "style": "{",
                "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger"},
            },
        },
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": format, "filters": ["request_id"]}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {  # one line per request only for log collectors
            "echoscope.requests": {"level": "INFO" if format == "json" else "WARNING"},
            "httpx": {"level": "WARNING"},
        },
    }
