"""Trajectories whose partial responses users watch: in Redis, with an expiry. Without Redis there are none.

Expiries use the clock of Redis: the clocks of web servers and workers may differ by more than an expiry.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import redis
import redis.asyncio
import redis.exceptions
from django.conf import settings

from trainer.journal.protocol import WATCH_FILE
from webapp.runs.untrusted_folder import UntrustedFolder

SUBSCRIPTION_TTL = 15.0
RENEW_INTERVAL = 5.0
MAX_SUBSCRIPTIONS = 64


def _key(slug: str) -> str:
    return f"echoscope:watch:{slug}"


def _moment(clock: tuple[int, int]) -> float:
    """Convert Redis' answer of seconds and microseconds to seconds."""
    seconds, microseconds = clock
    return seconds + microseconds / 1e6


async def subscribe(client: redis.asyncio.Redis, slug: str, trajectory: str) -> None:
    """Watch a trajectory (its journal id, or ANY_TRAJECTORY) for SUBSCRIPTION_TTL."""
    now = _moment(await client.time())
    async with client.pipeline(transaction=False) as pipe:
        pipe.zadd(_key(slug), {trajectory: now + SUBSCRIPTION_TTL})
        pipe.zremrangebyscore(_key(slug), "-inf", now)
        pipe.zremrangebyrank(_key(slug), 0, -MAX_SUBSCRIPTIONS - 1)
        pipe.expire(_key(slug), int(SUBSCRIPTION_TTL) + 1)
        await pipe.execute()


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def subscribed(slug: str) -> list[str]:
    """Return the watched trajectories of a run, sorted; empty while Redis is unavailable."""
    try:
        with _client().pipeline(transaction=False) as pipe:
            pipe.time()
            pipe.zrange(_key(slug), 0, -1, withscores=True)
            clock, watched = pipe.execute()
    except (redis.exceptions.RedisError, OSError):
        return []
    return sorted(name.decode() for name, expires in watched if expires >= _moment(clock))


def write(folder: Path, trajectories: list[str]) -> None:
    """Write the trainer's subscription file atomically."""
    UntrustedFolder(folder).replace(WATCH_FILE, json.dumps({"trajectories": trajectories}).encode())
