"""The cache of rate limits: shared in Redis, and held by the process while Redis is down or hangs."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import pytest

from tests.conftest import REDIS
from webapp.core import limits_cache
from webapp.core.limits_cache import LimitsCache


def cache_at(url: str) -> LimitsCache:
    return LimitsCache(url, {"KEY_PREFIX": f"try:{uuid.uuid4().hex}"})


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A server that accepts connections and never answers, as a frozen Redis does."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_two_processes_count_together() -> None:
    one = cache_at(REDIS.url())
    two = LimitsCache(REDIS.url(), {"KEY_PREFIX": one.key_prefix})
    two._own = cache_at("redis://127.0.0.1:9/0")._own  # the memory of another process
    one.set("attempts", [3.5, 1.0], 300.0)
    assert two.get("attempts") == [3.5, 1.0]
    assert one.add("lock", True, 10)
    assert not two.add("lock", True, 10)
    assert two.delete("lock")
    assert one.add("lock", True, 10)
    assert two.get("nothing", []) == []


def test_clearing_it_leaves_what_others_keep_in_the_same_redis() -> None:
    one, other = cache_at(REDIS.url()), cache_at(REDIS.url())
    one.set("a", 1, None)
    other.set("a", 2, None)
    one.clear()
    assert (one.get("a"), other.get("a")) == (None, 2)


def exercise(cache: LimitsCache) -> None:
    cache.set("attempts", [1.0], 300)
    assert cache.get("attempts") == [1.0]
    assert cache.add("lock", True, 10)
    assert not cache.add("lock", True, 10)
    assert cache.delete("lock")
    assert cache.touch("attempts", 5)
    assert not cache.touch("nothing", 5)


def test_limits_hold_in_the_process_while_redis_is_down() -> None:
    exercise(cache_at("redis://127.0.0.1:9/0"))


def test_a_redis_that_hangs_is_tried_once_and_then_left_alone(silent_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_cache, "TIMEOUT", 0.05)
    tried: list[str] = []
    client = limits_cache._client
    monkeypatch.setattr(limits_cache, "_client", lambda url: (tried.append(url), client(url))[1])
    exercise(cache_at(silent_url))
    assert tried == [silent_url]


def test_what_was_counted_before_an_outage_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_at(REDIS.url())
    cache.set("attempts", [2.0, 1.0], 300)
    monkeypatch.setitem(limits_cache._paused_until, REDIS.url(), float("inf"))
    assert cache.get("attempts") == [2.0, 1.0]
