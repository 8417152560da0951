"""Websocket of annotations: access, and every change reported, with Redis and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.routing import URLRouter
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.live.test_run_consumer import Browser, _close_connections
from tests.webapp.live.test_without_redis import Switch, switch
from webapp.annotations.actions import do_comment, do_star, do_tag
from webapp.live import annotation_consumer
from webapp.live.routing import websocket_urlpatterns
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["_close_connections", "switch"]


@asynccontextmanager
async def page(slug: str, user: Any, after: int | str = 0) -> AsyncIterator[Browser]:
    browser = Browser(URLRouter(websocket_urlpatterns), f"/ws/t/{slug}/?after={after}", [], user)
    assert await browser.connect()
    try:
        yield browser
    finally:
        await browser.leave()


async def test_a_change_is_reported_to_all_open_pages(trajectory: Trajectory, people: People) -> None:
    async with page(trajectory.slug, people.owner) as one, page(trajectory.slug, people.viewer) as two:
        await sync_to_async(do_comment)(trajectory, people.viewer, "Look.")
        assert await one.until("changed") == {"type": "changed", "version": 1}
        assert await two.until("changed") == {"type": "changed", "version": 1}
        await sync_to_async(do_star)(trajectory, people.owner)
        assert (await one.until("changed"))["version"] == 2


async def test_a_change_missed_while_away_is_reported_on_return(trajectory: Trajectory, people: People) -> None:
    await sync_to_async(do_tag)(trajectory, people.owner, "corner")
    async with page(trajectory.slug, people.owner, after=0) as browser:
        assert (await browser.until("changed"))["version"] == 1
    async with page(trajectory.slug, people.owner, after="nonsense") as browser:
        assert (await browser.until("changed"))["version"] == 1


async def test_an_up_to_date_page_gets_no_report(trajectory: Trajectory, people: People) -> None:
    await sync_to_async(do_tag)(trajectory, people.owner, "corner")
    async with page(trajectory.slug, people.owner, after=1) as browser:
        await browser.send('{"type":"ping"}')
        assert (await browser.frame())["type"] == "pong"


async def test_without_redis_pages_poll(
    trajectory: Trajectory,
    people: People,
    switch: Switch,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(annotation_consumer.AnnotationHub, "health_interval", 0.1)
    monkeypatch.setattr(annotation_consumer, "POLL_WITHOUT_REDIS", 0.1)
    await sync_to_async(switch.off)()
    async with page(trajectory.slug, people.owner) as browser:
        await sync_to_async(do_comment)(trajectory, people.viewer, "Look.")
        assert (await browser.until("changed"))["version"] == 1
        await sync_to_async(switch.on)()
        await sync_to_async(do_comment)(trajectory, people.viewer, "Look again.")
        assert (await browser.until("changed"))["version"] == 2
