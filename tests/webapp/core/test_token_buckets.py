"""Token buckets: shared by processes in Redis, all or none, and kept by the process while Redis is away."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import REDIS
from webapp.core import token_buckets
from webapp.core.token_buckets import TokenBucket, take

AWAY = "redis://127.0.0.1:9/0"


def bucket(capacity: int) -> TokenBucket:
    return TokenBucket(uuid.uuid4().hex, capacity)


@pytest.fixture(params=["shared", "own"])
def url(request: pytest.FixtureRequest) -> str:
    return REDIS.url() if request.param == "shared" else AWAY


def test_a_bucket_allows_its_capacity_and_names_the_time_to_wait(url: str) -> None:
    own = bucket(3)
    assert [take(url, [own]).remaining for _ in range(3)] == [2, 1, 0]
    refused = take(url, [own])
    assert 15 < refused.wait <= 20, "a third of a minute for each of three"
    assert refused.retry_after == 20
    assert refused.reset == 60


def test_tokens_come_back_one_by_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_buckets, "PERIOD", 4.0)
    own = bucket(2)
    assert not any(take(url, [own]).wait for _ in range(2))
    wait = take(url, [own]).wait
    assert wait
    time.sleep(wait)
    assert not take(url, [own]).wait, "exactly after the time that was named"
    assert take(url, [own]).wait


def test_a_request_takes_of_all_buckets_or_of_none(url: str) -> None:
    own, team = bucket(10), bucket(1)
    assert not take(url, [own, team]).wait
    for _ in range(20):
        refused = take(url, [own, team])
        assert refused.bucket is team
        assert refused.wait
    assert take(url, [own]).remaining == 8


def test_concurrent_requests_never_take_more_than_there_is() -> None:
    own, url = bucket(20), REDIS.url()
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda _: take(url, [own]), range(60)))
    assert sum(not result.wait for result in results) == 20


def test_two_processes_share_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    own, url = bucket(2), REDIS.url()
    take(url, [own])
    monkeypatch.setattr(token_buckets, "_own", token_buckets._OwnBuckets())  # the memory of another process
    assert take(url, [own]).remaining == 0


def test_buckets_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_buckets, "PERIOD", 0.05)
    own = bucket(2)
    take(REDIS.url(), [own])
    time.sleep(0.1)
    assert not token_buckets.shared(REDIS.url(), lambda client: client.exists(f"echoscope:bucket:{own.name}"))
