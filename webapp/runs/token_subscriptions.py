"""Which trajectories' thoughts somebody watches right now. Kept in Redis with an expiry; without Redis nobody does."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path

import redis
import redis.asyncio
import redis.exceptions
from django.conf import settings

from trainer.journal.protocol import WATCH_FILE

LIFE = 15.0
REFRESH = 5.0
MOST = 64


def _key(slug: str) -> str:
    return f"echoscope:watch:{slug}"


async def keep(client: redis.asyncio.Redis, slug: str, trajectory: str) -> None:
    """Watch a trajectory (its id in the journal, or ANY_TRAJECTORY) for LIFE seconds."""
    now = time.time()
    async with client.pipeline(transaction=False) as pipe:
        pipe.zadd(_key(slug), {trajectory: now + LIFE})
        pipe.zremrangebyscore(_key(slug), "-inf", now)
        pipe.zremrangebyrank(_key(slug), 0, -MOST - 1)
        pipe.expire(_key(slug), int(LIFE) + 1)
        await pipe.execute()


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def watched(slug: str) -> list[str]:
    """What is watched now, sorted; nothing while Redis is gone."""
    try:
        found = _client().zrangebyscore(_key(slug), time.time(), "+inf")
    except (redis.exceptions.RedisError, OSError):
        return []
    return sorted(name.decode() for name in found)  # type: ignore[union-attr]


def write(folder: Path, trajectories: list[str]) -> None:
    """Tell the trainer, in one piece: it never reads half a file."""
    fresh = folder / f"{WATCH_FILE}.new"
    fresh.write_text(json.dumps({"trajectories": trajectories}), encoding="utf-8")
    fresh.replace(folder / WATCH_FILE)
