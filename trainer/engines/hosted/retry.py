"""How long to wait before a request is made again, and whether at all: pure functions of what the endpoint said."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_WAIT = 0.5
RETRYABLE_STATUS = (408, 409, 425, 429)
"""Statuses below 500 after which the same request may succeed; all from 500 on are such."""


def is_retryable(status: int) -> bool:
    """Whether a refusal with this HTTP status is worth another try."""
    return status in RETRYABLE_STATUS or status >= 500


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the endpoint asks to wait: Retry-After as seconds or as a date, or retry-after-ms; None if it
    does not say, or not in a way that can be understood.

    Source: RFC 9110, 10.2.3.
    """
    given = headers.get("retry-after", "").strip()
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return _seconds(float(milliseconds) / 1000)
        return _seconds(float(given)) if given else None
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(given)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _seconds(value: float) -> float | None:
    return value if 0 <= value < float("inf") else None


def backoff(attempt: int, asked: float | None, longest: float, draw: random.Random) -> float:
    """Seconds before the next try.

    Args:
        attempt: failed tries so far, at least 1.
        asked: what the endpoint asked for.
        longest: of waits that we choose ourselves.
        draw: decides the jitter.
    Returns:
        What was asked for and up to a quarter more, so that not everybody comes back at once; else something between
        half and all of a time that doubles with each try, up to `longest`.
    Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (equal jitter).
    """
    if asked is not None:
        return asked + draw.uniform(0, asked / 4)
    most = min(longest, FIRST_WAIT * 2 ** min(attempt - 1, 30))
    return draw.uniform(most / 2, most)
