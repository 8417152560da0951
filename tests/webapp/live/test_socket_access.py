"""Open websockets end with the access of their user, and a visitor opens a limited number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as site
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from pytest_django import Settings

from tests.patience import SECONDS
from tests.webapp.conftest import People
from tests.webapp.live.test_run_consumer import Browser, _close_connections, browser
from webapp.live import access_watch, consumer_base
from webapp.live.consumer_base import TRY_LATER, get_visitor
from webapp.live.run_consumer import RunConsumer
from webapp.runs.models import Run
from webapp.teams.models import Membership, User
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["_close_connections"]


@pytest.fixture
def _frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_watch, "ACCESS_INTERVAL", 0.05)


def test_access_is_checked_within_seconds() -> None:
    assert access_watch.ACCESS_INTERVAL <= 10


def log_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def log_out(client: Client, user: User) -> None:
    client.post("/logout")


def end_from_another_browser(client: Client, user: User) -> None:
    other = log_in(user)
    client.get("/account")  # records the session, as each page does
    other.post("/account/sessions/end")


def deactivate(client: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def change_password(client: Client, user: User) -> None:
    user.set_password("another long secret")
    user.save()


def delete(client: Client, user: User) -> None:
    user.delete()


def leave(client: Client, user: User) -> None:
    Membership.objects.filter(user=user).delete()


@pytest.mark.usefixtures("_frequent_checks")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (log_out, TRY_LATER),
        (end_from_another_browser, TRY_LATER),
        (deactivate, TRY_LATER),
        (change_password, TRY_LATER),
        (delete, TRY_LATER),
        (leave, consumer_base.NOT_FOUND),
    ],
)
async def test_open_sockets_end_with_access(
    trajectory: Trajectory, people: People, change: Callable[[Client, User], None], code: int
) -> None:
    from webapp.asgi import application

    client = await sync_to_async(log_in)(people.viewer)
    cookie = f"{site.SESSION_COOKIE_NAME}={client.cookies[site.SESSION_COOKIE_NAME].value}"
    headers = [(b"cookie", cookie.encode()), (b"origin", b"http://localhost"), (b"host", b"localhost")]
    run = await Run.objects.aget()
    sockets = [Browser(application, f"/ws/runs/{run.slug}/", headers)]
    sockets += [Browser(application, f"/ws/t/{trajectory.slug}/", headers)]
    for socket in sockets:
        assert await socket.connect()
    await sync_to_async(change)(client, people.viewer)
    assert [await socket.closed() for socket in sockets] == [code, code]
    for socket in sockets:
        await socket.leave()
    again = Browser(application, f"/ws/runs/{run.slug}/", headers)
    assert await again.connect()
    assert await again.closed() in {consumer_base.LOG_IN, consumer_base.NOT_FOUND}
    await again.leave()


@pytest.mark.usefixtures("_frequent_checks")
async def test_sockets_stay_open_while_the_session_lasts(
    run: Run, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    from webapp.asgi import application

    client = await sync_to_async(log_in)(people.viewer)
    cookie = f"{site.SESSION_COOKIE_NAME}={client.cookies[site.SESSION_COOKIE_NAME].value}"
    headers = [(b"cookie", cookie.encode()), (b"origin", b"http://localhost"), (b"host", b"localhost")]
    socket = Browser(application, f"/ws/runs/{run.slug}/", headers)
    assert await socket.connect()
    checks: list[bool] = []
    check, loop, checked = consumer_base.is_still_signed_in, asyncio.get_running_loop(), asyncio.Event()

    def recorded(user: User | AnonymousUser, session_key: str | None) -> bool:
        checks.append(check(user, session_key))
        if len(checks) == 3:
            loop.call_soon_threadsafe(checked.set)
        return checks[-1]

    monkeypatch.setattr(consumer_base, "is_still_signed_in", recorded)
    async with asyncio.timeout(SECONDS):
        await checked.wait()
    assert all(checks)
    await socket.send('{"type":"ping"}')
    assert await socket.until("pong") == {"type": "pong"}
    await socket.leave()


@pytest.mark.usefixtures("_frequent_checks")
async def test_an_anonymous_reader_is_disconnected_when_the_run_is_closed(run: Run) -> None:
    await Run.objects.filter(pk=run.pk).aupdate(visibility=Run.Visibility.LINK)
    async with browser(run, AnonymousUser()) as page:
        await page.until("hello")
        await Run.objects.filter(pk=run.pk).aupdate(visibility=Run.Visibility.TEAM)
        assert await page.closed() == consumer_base.NOT_FOUND


async def test_a_visitor_opens_a_limited_number_of_sockets(run: Run, people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_SOCKETS_PER_VISITOR = 2
    async with browser(run, people.owner) as one:
        async with browser(run, people.owner), browser(run, people.viewer) as other:
            async with browser(run, people.owner) as third:
                assert await third.closed() == TRY_LATER
            assert (await other.frame())["type"] == "hello", "each visitor has their own limit"
        async with browser(run, people.owner) as third:
            assert (await third.frame())["type"] == "hello", "a closed socket makes room"
        assert (await one.frame())["type"] == "hello"
    assert not consumer_base._sockets


class BrokenOpen(RunConsumer):
    async def open(self) -> int | None:
        await super().open()
        raise ValueError("not foreseen")


@pytest.mark.parametrize(
    ("consumer", "received", "full", "error"),
    [
        (RunConsumer, [{"type": "websocket.receive", "text": '{"type": "ping"}'}], False, OSError),
        (RunConsumer, [], True, OSError),  # the refusal cannot be sent
        (BrokenOpen, [], False, ValueError),
    ],
)
async def test_a_socket_ends_when_its_client_has_left_before_an_answer(
    run: Run,
    people: People,
    monkeypatch: pytest.MonkeyPatch,
    consumer: type[RunConsumer],
    received: list[dict[str, Any]],
    full: bool,
    error: type[Exception],
) -> None:
    released: list[RunConsumer] = []

    class Observed(consumer):  # type: ignore[valid-type, misc]
        async def release(self) -> None:
            released.append(self)
            await super().release()

    if full:
        monkeypatch.setattr(consumer_base, "is_reached", lambda name, number: True)
    incoming = iter([{"type": "websocket.connect"}, *received])

    async def receive() -> dict[str, Any]:
        if (message := next(incoming, None)) is not None:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        if message["type"] != "websocket.accept":
            raise OSError("the connection is closed")

    user = await sync_to_async(lambda: people.owner)()
    scope = {
        "type": "websocket",
        "user": user,
        "query_string": b"",
        "url_route": {"kwargs": {"slug": run.slug}},
    }
    with pytest.raises(error):
        async with asyncio.timeout(SECONDS):
            await Observed()(scope, receive, send)
    assert not consumer_base._sockets
    assert len(released) == (0 if full else 1)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "_guard" in repr(task)], "its tasks have ended"


@pytest.mark.parametrize(
    ("scope", "visitor"),
    [
        ({"client": ("203.0.113.7", 1234)}, "address 203.0.113.7"),
        ({"client": ("2001:db8:1:2:3:4:5:6", 1234)}, "address 2001:db8:1:2::/64"),
        ({"client": ("::ffff:203.0.113.7", 1234)}, "address 203.0.113.7"),
        ({"client": None}, ""),
        ({}, ""),
    ],
)
def test_anonymous_visitors_are_known_by_their_address(scope: dict[str, Any], visitor: str) -> None:
    assert get_visitor(scope | {"user": AnonymousUser()}) == visitor
