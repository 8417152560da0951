"""Token buckets in Redis, so that all web processes count together, or in the process while Redis is unavailable.

A bucket has `capacity` tokens and refills over PERIOD. A request takes one token from each of its buckets, or none.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from webapp.core.limits_cache import shared

PERIOD = 60.0
"""Seconds in which an empty bucket is full again."""
MAX_OWN = 10_000

TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local period, levels, wait = tonumber(ARGV[1]), {}, 0
for at, key in ipairs(KEYS) do
    local capacity = tonumber(ARGV[at + 1])
    local kept = redis.call('HMGET', key, 'level', 'time')
    local level = tonumber(kept[1] or capacity) + math.max(0, now - tonumber(kept[2] or now)) * capacity / period
    levels[at] = math.min(capacity, level)
    wait = math.max(wait, (1 - levels[at]) * period / capacity)
end
for at, key in ipairs(KEYS) do
    if wait <= 0 then levels[at] = levels[at] - 1 end
    redis.call('HSET', key, 'level', tostring(levels[at]), 'time', tostring(now))
    redis.call('PEXPIRE', key, math.ceil(1000 * period))
    levels[at] = tostring(levels[at])
end
return {tostring(wait), unpack(levels)}
"""
"""It uses Redis's clock, because the clocks of the web processes may differ."""


@dataclass(frozen=True)
class TokenBucket:
    """A bucket by its name."""

    name: str
    capacity: int


@dataclass(frozen=True)
class Taken:
    """Result of a request, and the bucket that determines the next one."""

    bucket: TokenBucket
    remaining: int
    wait: float
    """Seconds until the request would be allowed; 0 if it is allowed."""

    @property
    def retry_after(self) -> int:
        """Return whole seconds to wait, at least 1."""
        return max(1, math.ceil(self.wait))

    @property
    def reset(self) -> int:
        """Return seconds until the bucket is full."""
        return math.ceil((self.bucket.capacity - self.remaining) * PERIOD / self.bucket.capacity)


def take(url: str, buckets: Sequence[TokenBucket]) -> Taken:
    """Take a token from each bucket in the Redis at `url`, if all of them have one."""
    answer = shared(url, lambda client: _take_shared(client, buckets))
    wait, levels = _own.take(buckets) if answer is None else answer
    least, level = min(zip(buckets, levels, strict=True), key=lambda pair: (pair[1] - 1) / pair[0].capacity)
    return Taken(least, max(0, math.floor(level)), max(0.0, wait))


def _take_shared(client: redis.Redis, buckets: Sequence[TokenBucket]) -> tuple[float, list[float]]:
    names = [f"echoscope:bucket:{bucket.name}" for bucket in buckets]
    answer = client.eval(TAKE, len(names), *names, str(PERIOD), *(str(bucket.capacity) for bucket in buckets))
    wait, *levels = map(float, answer)
    return wait, levels


class _OwnBuckets:
    """Token buckets in the memory of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, float]] = {}

    def take(self, buckets: Sequence[TokenBucket]) -> tuple[float, list[float]]:
        with self._lock:
            now = time.monotonic()
            if len(self._kept) > MAX_OWN:
                self._kept.clear()
            levels = []
            for bucket in buckets:
                level, at = self._kept.get(bucket.name, (float(bucket.capacity), now))
                levels.append(min(bucket.capacity, level + (now - at) * bucket.capacity / PERIOD))
            wait = max((1 - level) * PERIOD / bucket.capacity for bucket, level in zip(buckets, levels, strict=True))
            if wait <= 0:
                levels = [level - 1 for level in levels]
            self._kept |= {bucket.name: (level, now) for bucket, level in zip(buckets, levels, strict=True)}
            return wait, levels


_own = _OwnBuckets()
