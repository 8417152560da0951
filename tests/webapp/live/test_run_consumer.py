"""Websocket of a run: access, and every event exactly once and in order, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser
from django.db import connections
from django.test import Client
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.patience import SECONDS, eventually
from tests.webapp import journal_builder
from tests.webapp.conftest import People
from trainer.journal import events as journal
from trainer.journal.protocol import JOURNAL_FILE
from webapp.core.publisher import PROGRESS, TOKENS, publisher
from webapp.ingest.event_frames import frame_text
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.live import access_watch, consumer_base, frame_reader, run_consumer
from webapp.live.frame_reader import hub
from webapp.live.routing import websocket_urlpatterns
from webapp.live.shared_frames import WRITE, SharedFrame
from webapp.runs import token_subscriptions
from webapp.runs.actions import do_request
from webapp.runs.models import EventBatch, Run
from webapp.teams.models import Membership

pytestmark = pytest.mark.django_db(transaction=True)


class Browser:
    """One websocket, as opened by a browser."""

    def __init__(self, application: Any, address: str, headers: list[tuple[bytes, bytes]], user: Any = None) -> None:
        path, _, query = address.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
        } | ({} if user is None else {"user": user})
        self.socket = ApplicationCommunicator(application, scope)
        self.scope = scope

    async def connect(self) -> bool:
        """Whether the server accepts the connection."""
        await self.socket.send_input({"type": "websocket.connect"})
        return bool((await self.socket.receive_output(SECONDS))["type"] == "websocket.accept")

    def accept_shared(self, accept: Callable[[], bool]) -> None:
        """Let the server write shared frames past its tasks whenever `accept` returns true. Call it before connect."""

        def write(frame: SharedFrame) -> bool:
            accepted = accept()
            if accepted:
                self.socket.output_queue.put_nowait({"type": "websocket.send", "text": frame.text})
            return accepted

        self.scope["extensions"] = {WRITE: write}

    async def leave(self) -> None:
        await self.socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.socket.wait(SECONDS)

    async def text(self) -> str:
        """The next frame as sent."""
        message = await self.socket.receive_output(SECONDS)
        assert message["type"] == "websocket.send", message
        return str(message["text"])

    async def frame(self) -> dict[str, Any]:
        """The next frame."""
        read = json.loads(await self.text())
        assert isinstance(read, dict)
        return read

    async def until(self, kind: str) -> dict[str, Any]:
        """The next frame of that type."""
        while (frame := await self.frame())["type"] != kind:
            pass
        return frame

    async def thought(self, send: Callable[[], None]) -> dict[str, Any]:
        """The next thought; sent until it arrives, because the layer subscribes at its own pace."""
        async with asyncio.timeout(SECONDS):
            frame: dict[str, Any] = {"type": ""}
            while frame["type"] != "tokens":
                send()
                await self.send('{"type":"ping"}')
                frame = await self.frame()
                await asyncio.sleep(0.05)
        return frame

    async def events(self, last: int) -> list[int]:
        """The sequence numbers of all events up to `last`."""
        numbers: list[int] = []
        while not numbers or numbers[-1] < last:
            frame = await self.until("events")
            assert [frame["first"], frame["last"]] == [frame["events"][0]["seq"], frame["events"][-1]["seq"]]
            numbers += [event["seq"] for event in frame["events"]]
        return numbers

    async def closed(self) -> int:
        """The code with which the server closes."""
        while (message := await self.socket.receive_output(SECONDS))["type"] != "websocket.close":
            pass
        return int(message.get("code") or 1000)

    async def send(self, text: str) -> None:
        await self.socket.send_input({"type": "websocket.receive", "text": text})


@asynccontextmanager
async def browser(
    run: Run,
    user: Any,
    after: int | str = 0,
    slug: str | None = None,
    accept_shared: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Browser]:
    page = Browser(URLRouter(websocket_urlpatterns), f"/ws/runs/{slug or run.slug}/?after={after}", [], user)
    page.accept_shared(accept_shared)
    assert await page.connect()
    try:
        yield page
    finally:
        await page.leave()


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    """Close the connection of the thread that queries for coroutines: it would keep the test database open."""
    yield
    await sync_to_async(connections.close_all)()


@sync_to_async
def ingest(run: Run, folder: Path, *events: journal.Event) -> int:
    """Write the events to the journal and ingest them. Returns the run's newest event."""
    journal_builder.write(folder, *events)
    run.refresh_from_db()
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    return run.seq


async def test_a_subscription_begins_with_the_state_of_the_run(run: Run, people: People) -> None:
    async with browser(run, people.viewer) as page:
        hello = await page.frame()
        named = {key: hello[key] for key in ("type", "seq", "attempt", "state")}
        assert named == {"type": "hello", "seq": 0, "attempt": 0, "state": "queued"}


async def test_for_an_outsider_the_run_does_not_exist(run: Run, people: People) -> None:
    async with browser(run, people.outsider) as page:
        assert await page.closed() == consumer_base.NOT_FOUND
    async with browser(run, people.owner, slug="nosuchrun") as page:
        assert await page.closed() == consumer_base.NOT_FOUND


async def test_a_run_open_by_link_is_public_until_it_becomes_private(run: Run, people: People) -> None:
    await Run.objects.filter(pk=run.pk).aupdate(visibility=Run.Visibility.LINK)
    for user in (AnonymousUser(), people.outsider):
        async with browser(run, user) as page:
            assert (await page.frame())["type"] == "hello"
    await Run.objects.filter(pk=run.pk).aupdate(visibility=Run.Visibility.PRIVATE)
    async with browser(run, AnonymousUser()) as page:
        assert await page.closed() == consumer_base.LOG_IN
    for user in (people.outsider, people.viewer):
        async with browser(run, user) as page:
            assert await page.closed() == consumer_base.NOT_FOUND


async def test_the_application_accepts_a_session_and_refuses_a_foreign_origin(run: Run, people: People) -> None:
    from webapp.asgi import application

    client = Client()
    await sync_to_async(client.force_login)(people.owner)
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items()).encode()
    address = f"/ws/runs/{run.slug}/"
    home = [(b"cookie", cookies), (b"host", b"localhost"), (b"origin", b"http://localhost")]
    page = Browser(application, address, home)
    assert await page.connect()
    assert (await page.frame())["type"] == "hello"
    await page.leave()
    foreign = [(b"cookie", cookies), (b"host", b"localhost"), (b"origin", b"http://evil.example")]
    assert not await Browser(application, address, foreign).connect()


async def test_outside_the_team_frames_have_no_messages(run: Run, people: People, tmp_path: Path) -> None:
    notice = journal.Notice(level="error", message="/srv/secret")
    last = await ingest(run, tmp_path, journal_builder.started(), notice)
    await sync_to_async(Run.objects.filter(pk=run.pk).update)(
        visibility=Run.Visibility.LINK, failure="/srv/secret", journal_error="/srv/secret"
    )
    for user, inside in ((people.viewer, True), (people.outsider, False), (AnonymousUser(), False)):
        async with browser(run, user, after=0) as page:
            texts = [await page.text(), await page.text()]
            assert json.loads(texts[1])["last"] == last
            assert [("/srv/secret" in text) for text in texts] == [inside, inside]


async def test_stored_and_live_events_form_one_unbroken_sequence(run: Run, people: People, tmp_path: Path) -> None:
    last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
    async with browser(run, people.owner, after=5) as page:
        assert await page.events(last) == list(range(6, last + 1))
        newest = await ingest(run, tmp_path, *journal_builder.iteration(2))
        assert await page.events(newest) == list(range(last + 1, newest + 1))


async def test_every_listener_gets_the_stored_bytes(run: Run, people: People, tmp_path: Path) -> None:
    last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
    stored = await sync_to_async(lambda: [batch.frame for batch in EventBatch.objects.order_by("last_seq")])()
    async with browser(run, people.owner) as one, browser(run, people.viewer) as two:
        for page in (one, two):
            await page.until("hello")
            assert [await page.text() for _ in stored] == stored
        newest = await ingest(run, tmp_path, *journal_builder.iteration(2))
        for page in (one, two):
            assert await page.events(newest) == list(range(last + 1, newest + 1))


async def test_events_written_past_the_tasks_of_sockets_are_complete_and_in_order(
    run: Run, people: People, tmp_path: Path
) -> None:
    moods = cycle([True, True, False, True, False, False])
    written: list[bool] = []

    def sometimes() -> bool:
        written.append(next(moods))
        return written[-1]

    async with (
        browser(run, people.owner, accept_shared=lambda: True) as quick,
        browser(run, people.viewer, accept_shared=sometimes) as lagging,
        browser(run, people.owner) as other,
    ):
        pages = (quick, lagging, other)
        for page in pages:
            await page.until("hello")
        numbers: dict[Browser, list[int]] = {page: [] for page in pages}
        for iteration in range(1, 9):
            start = [journal_builder.started()] if iteration == 1 else []
            newest = await ingest(run, tmp_path, *start, *journal_builder.iteration(iteration))
            for page in pages:
                numbers[page] += await page.events(newest)
        assert all(seen == list(range(1, newest + 1)) for seen in numbers.values())
    assert {True, False} <= set(written)


async def test_outsiders_get_no_messages_in_shared_frames(run: Run, people: People, tmp_path: Path) -> None:
    await Run.objects.filter(pk=run.pk).aupdate(visibility=Run.Visibility.LINK)
    async with (
        browser(run, people.owner, accept_shared=lambda: True) as member,
        browser(run, AnonymousUser(), accept_shared=lambda: True) as outsider,
    ):
        for page in (member, outsider):
            await page.until("hello")
        await ingest(
            run, tmp_path, journal_builder.started(), journal.Notice(level="warning", message="/home/ada is full")
        )
        texts = [json.dumps(await page.until("events")) for page in (member, outsider)]
    assert ["/home/ada" in text for text in texts] == [True, False]


@pytest.mark.parametrize(("seconds", "dropped"), [(0.0, set()), (0.4, {"tokens"}), (1.2, {"tokens", "progress"})])
async def test_a_late_server_drops_tokens_first_then_progress_and_never_events(
    run: Run,
    people: People,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    dropped: set[str],
) -> None:
    read = frame_reader.status_and_frames

    def read_slowly(run_id: int, seq: int) -> Any:
        time.sleep(seconds)
        return read(run_id, seq)

    monkeypatch.setattr(frame_reader, "status_and_frames", read_slowly)
    async with browser(run, people.owner, accept_shared=lambda: True) as page:
        await page.until("hello")
        await page.send('{"type":"watch","trajectory":"*"}')
        last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
        assert await page.events(last) == list(range(1, last + 1))
        (reader,) = hub()._readers.values()
        await eventually(lambda: reader.delay >= seconds)
        reader.on_message({"type": TOKENS, "trajectory": "a", "turn": 0, "text": "I think"})
        reader.on_message({"type": PROGRESS, "phase": {"phase": "update"}})
        await page.send('{"type":"ping"}')
        kinds: set[str] = set()
        while "pong" not in kinds:
            kinds.add((await page.frame())["type"])
        assert {"tokens", "progress"} - kinds == dropped


@given(st.data())
def test_joined_frames_hold_the_events_of_the_stored_ones(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    texts = st.text(st.characters(codec="utf-8"), max_size=20)
    frames: list[frame_reader.Frame] = []
    for count in counts:
        first = frames[-1].last + 1 if frames else 5
        lines = [
            json.dumps({"seq": seq, "message": data.draw(texts)}, ensure_ascii=data.draw(st.booleans()))
            for seq in range(first, first + count)
        ]
        frames.append(frame_reader.Frame(first, first + count - 1, frame_text(first, first + count - 1, lines)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_reader, "JOINED_LENGTH", data.draw(st.integers(0, 400)))
        shared = frame_reader.joined(frames)
    assert [event for frame in shared for event in json.loads(frame.text)["events"]] == [
        event for frame in frames for event in json.loads(frame.text)["events"]
    ]
    for frame in shared:
        read = json.loads(frame.text)
        assert (read["type"], read["first"], read["last"]) == ("events", frame.first, frame.last)
        assert [event["seq"] for event in read["events"]] == list(range(frame.first, frame.last + 1))


def test_frames_with_a_gap_between_them_stay_apart() -> None:
    frames = [frame_reader.Frame(seq, seq, frame_text(seq, seq, [f'{{"seq":{seq}}}'])) for seq in (1, 2, 4, 5)]
    assert [(frame.first, frame.last) for frame in frame_reader.joined(frames)] == [(1, 2), (4, 5)]


async def test_a_change_of_state_is_reported_without_an_event(run: Run, people: People) -> None:
    async with browser(run, people.owner) as page:
        assert (await page.until("hello"))["state"] == "queued"
        await sync_to_async(do_request)(run, "pause")
        assert (await page.until("hello"))["state"] == "paused"


async def test_a_broken_journal_is_reported_to_watchers(run: Run, people: People, tmp_path: Path) -> None:
    async with browser(run, people.owner) as page:
        await page.until("hello")
        (tmp_path / JOURNAL_FILE).write_bytes(b"rubbish\n")
        await sync_to_async(JournalTailer(run, tmp_path).drain)()
        assert "line 1 is not an event" in (await page.until("hello"))["problem"]


async def test_a_new_attempt_makes_pages_reload_and_continue(run: Run, people: People, tmp_path: Path) -> None:
    last = await ingest(run, tmp_path, journal_builder.started(), *journal_builder.iteration(1))
    async with browser(run, people.owner, after=last) as page:
        await page.until("hello")
        again = await ingest(run, tmp_path, journal_builder.started(2), journal_builder.group(1, 0, ["x"]))
        assert (await page.until("resync"))["seq"] == again
        newest = await ingest(run, tmp_path, journal_builder.turn("x", 0))
        assert await page.events(newest) == [newest]


async def test_rebuilt_run_resyncs_pages_that_are_open_and_that_return(
    run: Run, people: People, tmp_path: Path
) -> None:
    last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
    path = tmp_path / JOURNAL_FILE
    async with browser(run, people.owner, after=f"{last}&rebuilds=0") as page:
        await page.until("hello")
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
        await sync_to_async(do_rebuild)(run, tmp_path)
        assert (await page.until("resync"))["seq"] == last - 3
        again = [journal_builder.started(2), *journal_builder.iteration(2)]
        await sync_to_async(run.refresh_from_db)()
        newest = await ingest(run, tmp_path, *again)
        assert newest > last
        assert (await page.until("resync"))["seq"] > last - 3, "a new attempt"
    async with browser(run, people.owner, after=f"{last}&rebuilds=0") as page:
        assert (await page.until("resync"))["seq"] == newest, "the same number is another event now"
    async with browser(run, people.owner, after=f"{newest - 2}&rebuilds=1") as page:
        assert await page.events(newest) == [newest - 1, newest]


@pytest.mark.parametrize("after", [10**6, "0"])
async def test_a_cursor_that_cannot_be_served_gets_a_resync(
    run: Run, people: People, tmp_path: Path, after: int | str
) -> None:
    last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
    await sync_to_async(EventBatch.objects.all().delete)()  # pruned
    async with browser(run, people.owner, after=after) as page:
        assert (await page.until("resync"))["seq"] == last
        newest = await ingest(run, tmp_path, *journal_builder.iteration(2))
        assert await page.events(newest) == list(range(last + 1, newest + 1))


async def test_a_page_too_far_behind_gets_a_resync(
    run: Run, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_consumer, "MAX_EVENTS_BEHIND", 10)
    last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
    async with browser(run, people.owner, after=1) as page:
        assert (await page.until("resync"))["seq"] == last


@pytest.mark.parametrize("after", ["", "-3", "x", "9" * 40, "٣", "1;2"])
async def test_an_invalid_cursor_starts_with_new_events(run: Run, people: People, tmp_path: Path, after: str) -> None:
    last = await ingest(run, tmp_path, journal_builder.started())
    async with browser(run, people.owner, after=after) as page:
        await page.until("hello")
        newest = await ingest(run, tmp_path, journal_builder.group(1, 0, ["a"]))
        assert await page.events(newest) == [last + 1]


async def test_a_listener_slower_than_memory_reads_from_the_database(
    run: Run, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_reader, "BUFFER_BYTES", 1)
    monkeypatch.setattr("webapp.ingest.tailer.BATCH_BYTES", 2000)
    async with browser(run, people.owner) as page, browser(run, people.viewer) as other:
        last = await ingest(run, tmp_path, *journal_builder.whole_run(3))
        assert await page.events(last) == await other.events(last) == list(range(1, last + 1))


async def test_lost_wake_up_messages_only_cost_time(
    run: Run, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_reader, "POLL_INTERVAL", 0.1)
    monkeypatch.setattr(publisher(), "notify", lambda slug, seq: None)
    async with browser(run, people.owner) as page:
        await page.until("hello")
        last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
        assert await page.events(last) == list(range(1, last + 1))


async def test_one_reader_serves_all_sockets_of_a_run_and_ends_with_the_last(run: Run, people: People) -> None:
    async with browser(run, people.owner) as one:
        await one.until("hello")
        async with browser(run, people.viewer) as two:
            await two.until("hello")
            (only,) = hub()._readers.values()
            assert len(only.listeners) == 2
        assert len(only.listeners) == 1
    assert not hub()._readers


async def test_tokens_reach_the_watchers_of_that_trajectory(run: Run, people: People) -> None:
    owner, viewer = people.owner, people.viewer
    async with browser(run, owner) as one, browser(run, viewer) as two, browser(run, owner) as three:
        for page, trajectory in ((one, "a"), (two, "b"), (three, "*")):
            await page.until("hello")
            await page.send(json.dumps({"type": "watch", "trajectory": trajectory}))
            await page.send('{"type":"ping"}')
            await page.until("pong")
        assert await sync_to_async(token_subscriptions.subscribed)(run.slug) == ["*", "a", "b"]

        def send() -> None:
            publisher().tokens(run.slug, "a", 1, "I think")
            publisher().tokens(run.slug, "b", 0, "So do I")

        expected = {"type": "tokens", "trajectory": "a", "turn": 1, "text": "I think"}
        assert await one.thought(send) == expected
        assert (await two.thought(send))["trajectory"] == "b"
        assert await three.thought(send) in (expected, expected | {"trajectory": "b", "turn": 0, "text": "So do I"})


async def test_progress_of_an_update_reaches_every_watcher_without_touching_its_cursor(
    run: Run, people: People, tmp_path: Path
) -> None:
    phase = {"phase": "update", "iteration": 1, "done": 3, "total": 8, "time": 1.5}
    async with browser(run, people.owner) as one, browser(run, people.viewer) as two:
        for page in (one, two):
            await page.until("hello")
            frame: dict[str, Any] = {}
            async with asyncio.timeout(SECONDS):
                while frame.get("type") != "progress":  # the layer subscribes at its own pace
                    publisher().progress(run.slug, phase)
                    await page.send('{"type":"ping"}')
                    frame = await page.frame()
                    await asyncio.sleep(0.05)
            assert frame == {"type": "progress", "phase": phase}
        last = await ingest(run, tmp_path, *journal_builder.whole_run(1))
        assert await one.events(last) == list(range(1, last + 1))


async def test_the_heartbeat_is_answered(run: Run, people: People) -> None:
    async with browser(run, people.owner) as page:
        await page.send('{"type":"ping"}')
        assert await page.until("pong") == {"type": "pong"}


async def test_a_former_member_is_disconnected(run: Run, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_watch, "ACCESS_INTERVAL", 0.05)
    async with browser(run, people.viewer) as page:
        await page.until("hello")
        await sync_to_async(Membership.objects.filter(user=people.viewer).delete)()
        assert await page.closed() == consumer_base.NOT_FOUND


async def test_a_silent_client_is_disconnected(run: Run, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_base, "PING_INTERVAL", 0)
    monkeypatch.setattr(consumer_base, "CLIENT_TIMEOUT", 0)
    monkeypatch.setattr(token_subscriptions, "RENEW_INTERVAL", 0.05)
    async with browser(run, people.viewer) as page:
        assert await page.closed() == 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        '"watch"',
        "{}",
        '{"type":"launch"}',
        '{"type":"watch"}',
        '{"type":["watch"]}',
        '{"type":"watch","trajectory":7}',
        '{"type":"watch","trajectory":""}',
        "[" * 1900,
        "x" * 100_000,
    ],
)
async def test_a_malformed_frame_gets_an_error_and_breaks_nothing(
    run: Run, people: People, tmp_path: Path, text: str
) -> None:
    async with browser(run, people.owner) as page:
        await page.send(text)
        assert (await page.until("error"))["message"].endswith(".")
        last = await ingest(run, tmp_path, journal_builder.started())
        assert await page.events(last) == [1]


async def test_a_binary_frame_gets_an_error(run: Run, people: People) -> None:
    async with browser(run, people.owner) as page:
        await page.socket.send_input({"type": "websocket.receive", "bytes": b"\x00\xff"})
        assert "JSON text" in (await page.until("error"))["message"]


@hypothesis_settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(after=st.integers(0, 40), batch=st.sampled_from([300, 3_000, 300_000]))
def test_any_cursor_receives_exactly_the_remaining_events(run: Run, people: People, after: int, batch: int) -> None:
    import tempfile

    async def play(fresh: Run, folder: Path) -> None:
        last = await ingest(fresh, folder, *journal_builder.whole_run(2))
        async with browser(fresh, people.owner, after=after) as page:
            assert await page.events(last) == list(range(after + 1, last + 1))
        await sync_to_async(connections.close_all)()

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("webapp.ingest.tailer.BATCH_BYTES", batch)
        asyncio.run(play(Run.objects.create(team=run.team, title="t", config={}, environment="Sokoban"), Path(place)))
