"""Waiting: as long as the endpoint asks for, else longer each time, never all at once."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.engines.hosted.retry import backoff, is_retryable, retry_after

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
def test_what_an_endpoint_asks_for_is_understood(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.text(max_size=30))
def test_no_header_whatever_breaks_it(text: str) -> None:
    found = retry_after({"retry-after": text}, NOW)
    assert found is None or found >= 0


@given(st.integers(1, 200), st.floats(0, 3600), st.integers())
def test_our_own_waits_grow_up_to_the_longest(attempt: int, longest: float, seed: int) -> None:
    found = backoff(attempt, None, longest, random.Random(seed))
    most = min(longest, 0.5 * 2 ** min(attempt - 1, 30))
    assert most / 2 <= found <= most


@given(st.floats(0, 3600), st.integers())
def test_what_is_asked_for_is_kept_and_spread(asked: float, seed: int) -> None:
    assert asked <= backoff(1, asked, 60, random.Random(seed)) <= asked * 1.25


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert is_retryable(status)


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 413, 422])
def test_what_will_not_pass_is_not(status: int) -> None:
    assert not is_retryable(status)
