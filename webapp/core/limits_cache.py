"""Cache of rate limits: in Redis, so that all web processes count together; in the process if Redis is unavailable.

Everything is also written to the process's memory. When Redis refuses or does not answer within TIMEOUT, only that
memory is used for PAUSE seconds: limits then apply within each process, and no login waits or fails. Values are JSON,
so nothing read from Redis is ever executed. An attacker cannot evict entries: each attempt that adds some is itself
limited by network address.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.locmem import LocMemCache
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = logging.getLogger(__name__)

TIMEOUT = 0.5
PAUSE = 15.0
"""Longer than allauth's locks (10 s): a lock left in Redis has expired when Redis is used again."""
MAX_ENTRIES = 100_000
UNAVAILABLE = (redis.RedisError, OSError)

Result = TypeVar("Result")

_clients: dict[str, redis.Redis] = {}
_paused_until: dict[str, float] = {}
_away_since: dict[str, float] = {}
"""Times at which an unavailable Redis stopped answering, in seconds since 1970."""


def _client(url: str) -> redis.Redis:
    """Return the process's client of that Redis. Django creates a cache object per request; connections are shared."""
    if url not in _clients:
        once_more = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
        _clients[url] = redis.Redis.from_url(
            url, socket_connect_timeout=TIMEOUT, socket_timeout=TIMEOUT, retry=once_more
        )
    return _clients[url]


def shared(url: str, work: Callable[[redis.Redis], Result]) -> Result | None:
    """Return the result of `work` with that Redis; None while it is unavailable."""
    if time.monotonic() < _paused_until.get(url, 0.0):
        return None
    try:
        result = work(_client(url))
    except UNAVAILABLE as error:
        _paused_until[url] = time.monotonic() + PAUSE
        _away_since.setdefault(url, time.time())
        logger.warning("Redis does not answer (%s): each web process counts its own rate limits.", error)
        return None
    _away_since.pop(url, None)
    return result


def away_since(url: str) -> float | None:
    """Return when that Redis stopped answering this process; None if it answered the last request."""
    return _away_since.get(url)


class LimitsCache(BaseCache):
    """Django cache at a `redis://`, `rediss://` or `unix://` URL; values must be JSON."""

    def __init__(self, url: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._url = url
        self._own = LocMemCache(f"limits of {url}", params | {"OPTIONS": {"MAX_ENTRIES": MAX_ENTRIES}})

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        added = self._shared(
            lambda client: bool(
                client.set(self._name(key, version), json.dumps(value), nx=True, px=self._milliseconds(timeout))
            )
        )
        if added is None:
            return bool(self._own.add(key, value, timeout, version))
        if added:
            self._own.set(key, value, timeout, version)
        return added

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        cached = self._shared(lambda client: (client.get(self._name(key, version)),))
        if cached is None:
            return self._own.get(key, default, version)
        return default if cached[0] is None else json.loads(cached[0])

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._own.set(key, value, timeout, version)
        name, text = self._name(key, version), json.dumps(value)
        self._shared(lambda client: client.set(name, text, px=self._milliseconds(timeout)))

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        value = self.get(key, None, version)
        if value is not None:
            self.set(key, value, timeout, version)
        return value is not None

    def delete(self, key: str, version: int | None = None) -> bool:
        mine = bool(self._own.delete(key, version))
        deleted = self._shared(lambda client: bool(client.delete(self._name(key, version))))
        return mine if deleted is None else deleted

    def clear(self) -> None:
        """Delete only this cache's entries, since Redis has other users."""
        self._own.clear()

        def clear(client: redis.Redis) -> None:
            for name in client.scan_iter(match=f"{self.key_prefix}:*", count=1000):
                client.delete(name)

        self._shared(clear)

    def _shared(self, work: Callable[[redis.Redis], Result]) -> Result | None:
        return shared(self._url, work)

    def _name(self, key: str, version: int | None) -> str:
        return str(self.make_and_validate_key(key, version=version))

    def _milliseconds(self, timeout: Any) -> int | None:
        seconds = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return None if seconds is None else max(1, int(1000 * seconds))
