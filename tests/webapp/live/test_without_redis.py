"""Without Redis, live pages poll and miss nothing; once it is back, tokens are streamed again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from tests.patience import SECONDS
from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.live.test_run_consumer import _close_connections, browser, ingest
from webapp.core import publisher
from webapp.core.publisher import Publisher
from webapp.live import frame_reader
from webapp.runs import token_subscriptions
from webapp.runs.models import Run
from webapp.services.addresses import free_port
from webapp.services.child_process import spawn, stop, wait_ready
from webapp.services.redis import Redis

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["_close_connections"]


class Switch:
    """A Redis server of this test, which can be stopped and restarted."""

    def __init__(self, folder: Path) -> None:
        self.server = Redis(folder / "redis", free_port(), "secret")
        self.program = self.server.program(folder / "redis.log")
        self.on()

    def on(self) -> None:
        self.process = spawn(self.program)
        wait_ready(self.program, self.process, SECONDS)

    def off(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def switch(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    made = Switch(tmp_path)
    settings.REDIS_URL = made.server.url()
    layer = settings.CHANNEL_LAYERS["default"]
    config = layer["CONFIG"] | {"hosts": [{"address": made.server.url(), "socket_connect_timeout": 2}]}
    settings.CHANNEL_LAYERS = {"default": layer | {"CONFIG": config}}
    monkeypatch.setattr(frame_reader.FrameHub, "health_interval", 0.1)
    own = Publisher()
    monkeypatch.setattr(publisher, "publisher", lambda: own)
    monkeypatch.setattr("webapp.runs.actions.publisher", lambda: own)
    token_subscriptions._client.cache_clear()
    yield made
    token_subscriptions._client.cache_clear()
    stop(made.program, made.process)


async def test_events_continue_without_redis_and_tokens_resume_afterwards(
    run: Run, people: People, tmp_path: Path, switch: Switch
) -> None:
    async with browser(run, people.owner) as page:
        assert (await page.until("hello"))["live"] == "push"
        await sync_to_async(switch.off)()
        assert (await page.until("hello"))["live"] == "poll"
        last = await ingest(run, tmp_path / "run", *journal_builder.whole_run(1))
        assert await page.events(last) == list(range(1, last + 1))
        await page.send(json.dumps({"type": "watch", "trajectory": "a"}))  # cannot be stored now, without an error
        await page.send('{"type":"ping"}')
        await page.until("pong")

        await sync_to_async(switch.on)()
        assert (await page.until("hello"))["live"] == "push"
        newest = await ingest(run, tmp_path / "run", *journal_builder.iteration(2))
        assert await page.events(newest) == list(range(last + 1, newest + 1))
        frame = await page.thought(lambda: publisher.publisher().tokens(run.slug, "a", 0, "I am back"))
        assert frame["text"] == "I am back"


async def test_a_page_opened_while_redis_is_down_gets_everything(
    run: Run, people: People, tmp_path: Path, switch: Switch
) -> None:
    await sync_to_async(switch.off)()
    last = await ingest(run, tmp_path / "run", *journal_builder.whole_run(1))
    async with browser(run, people.owner) as page:
        assert await page.events(last) == list(range(1, last + 1))
        newest = await ingest(run, tmp_path / "run", *journal_builder.iteration(2))
        assert await page.events(newest) == list(range(last + 1, newest + 1))
