"""A worker counts as dead without a heartbeat for SILENCE, wherever the site asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webapp.runs.actions import do_record_heartbeat
from webapp.runs.queue import order
from webapp.runs.queue.capacity import capacity_now
from webapp.runs.queue.dead_workers import SILENCE, is_alive, live_workers


@pytest.mark.django_db
@pytest.mark.parametrize(("age", "alive"), [(SILENCE - timedelta(seconds=1), True), (SILENCE, False)])
def test_a_worker_counts_until_its_last_heartbeat_is_too_long_ago(age: timedelta, alive: bool) -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    worker = do_record_heartbeat("a", now - age, queues=["any"])
    assert is_alive(worker, now) is alive
    assert [found.name for found in live_workers(now)] == ["a"] * alive
    assert [found.worker.name for found in order.workers(now)] == ["a"] * alive
    assert order.known_classes(now) == ({"any"} if alive else set())
    assert capacity_now(now).workers == ({"any": 1} if alive else {})
