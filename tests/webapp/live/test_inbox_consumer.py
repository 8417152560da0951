"""Websocket of the inbox: the unread count and new entries, to all browsers of the user and to no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.live.test_run_consumer import Browser, _close_connections
from webapp.live import consumer_base
from webapp.live.routing import websocket_urlpatterns
from webapp.notifications.actions import do_notify, do_read_all
from webapp.notifications.inbox import microseconds
from webapp.notifications.models import Notification
from webapp.runs.models import Run
from webapp.teams.models import User

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["_close_connections"]


@asynccontextmanager
async def page(user: Any, after: int | str = "") -> AsyncIterator[Browser]:
    browser = Browser(URLRouter(websocket_urlpatterns), f"/ws/inbox/?after={after}", [], user)
    assert await browser.connect()
    try:
        yield browser
    finally:
        await browser.leave()


@sync_to_async
def add(user: User, run: Run, key: str) -> None:
    do_notify([Notification(user=user, run=run, kind="finished", key=key, title="Run finished", path="/")])


async def test_a_notification_reaches_all_browsers_of_its_user_and_no_others(run: Run, people: People) -> None:
    async with page(people.viewer) as one, page(people.viewer) as two, page(people.owner) as other:
        for browser in (one, two, other):
            assert (await browser.until("inbox"))["unread"] == 0
        await add(people.viewer, run, "end")
        for browser in (one, two):
            update = await browser.until("inbox")
            assert (update["unread"], [entry["title"] for entry in update["entries"]]) == (1, ["Run finished"])
        await other.send('{"type":"ping"}')
        assert (await other.frame())["type"] == "pong"
        await sync_to_async(do_read_all)(people.viewer)
        assert await one.until("inbox") == {"type": "inbox", "unread": 0, "entries": [], "cursor": update["cursor"]}


async def test_what_came_while_away_is_sent_after_the_cursor_only(run: Run, people: People) -> None:
    before = microseconds(timezone.now())
    await add(people.viewer, run, "end")
    async with page(people.viewer, before) as browser:
        update = await browser.until("inbox")
        assert len(update["entries"]) == 1
    for cursor in (update["cursor"], "nonsense", 10**17):
        async with page(people.viewer, cursor) as browser:
            assert (await browser.until("inbox"))["entries"] == []


async def test_a_user_who_lost_access_gets_nothing(run: Run, people: People) -> None:
    before = microseconds(timezone.now())
    await add(people.viewer, run, "end")
    await Run.objects.filter(pk=run.pk).aupdate(visibility=Run.Visibility.PRIVATE)
    async with page(people.viewer, before) as browser:
        assert (await browser.until("inbox"))["entries"] == []


async def test_anonymous_visitors_are_refused() -> None:
    async with page(AnonymousUser()) as browser:
        assert await browser.closed() == consumer_base.LOG_IN
