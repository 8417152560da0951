"""Watched trajectories in Redis, seen by machines whose clocks differ."""

from __future__ import annotations

import asyncio
import time

import pytest
import redis.asyncio
from django.conf import settings

from webapp.runs import token_subscriptions


def subscribe(slug: str, trajectory: str) -> None:
    async def send() -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL)
        try:
            await token_subscriptions.subscribe(client, slug, trajectory)
        finally:
            await client.aclose()

    asyncio.run(send())


@pytest.mark.parametrize("error", [3600.0, -3600.0])
def test_a_worker_with_a_wrong_clock_sees_what_is_watched(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    slug, real = f"run {error}", time.time
    subscribe(slug, "a")
    monkeypatch.setattr(time, "time", lambda: real() + error)
    assert token_subscriptions.subscribed(slug) == ["a"]
    subscribe(slug, "b")
    monkeypatch.undo()
    assert token_subscriptions.subscribed(slug) == ["a", "b"]


def test_a_subscription_that_is_not_renewed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe("run-of-two", "kept")
    monkeypatch.setattr(token_subscriptions, "SUBSCRIPTION_TTL", 0.05)
    subscribe("run-of-two", "left")
    time.sleep(0.1)
    assert token_subscriptions.subscribed("run-of-two") == ["kept"]
