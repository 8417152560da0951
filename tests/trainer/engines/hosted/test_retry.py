"""Retry policy: waits as requested by the endpoint, else exponential backoff, always with jitter."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.engines.hosted.hosted_client import backoff, is_retryable, retry_after

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x"}, None),
    ],
)
def test_retry_after_is_parsed(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.text(max_size=30))
def test_no_header_breaks_the_parser(text: str) -> None:
    seconds = retry_after({"retry-after": text}, NOW)
    assert seconds is None or seconds >= 0


@given(st.integers(1, 200), st.floats(0, 3600), st.integers())
def test_backoff_grows_up_to_the_limit(failures: int, max_backoff: float, seed: int) -> None:
    seconds = backoff(failures, None, max_backoff, random.Random(seed))
    ceiling = min(max_backoff, 0.5 * 2 ** min(failures - 1, 30))
    assert ceiling / 2 <= seconds <= ceiling


@given(st.floats(0, 3600), st.integers())
def test_a_requested_wait_is_honoured_with_jitter(requested: float, seed: int) -> None:
    assert requested <= backoff(1, requested, 60, random.Random(seed)) <= requested * 1.25


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_temporary_errors_are_retryable(status: int) -> None:
    assert is_retryable(status)


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 413, 422])
def test_permanent_errors_are_not_retryable(status: int) -> None:
    assert not is_retryable(status)
