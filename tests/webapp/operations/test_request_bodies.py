"""Bodies of requests: large ones only for journals of known senders, and none that never ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import connections
from django.test import Client
from pytest_django import Settings

from tests.patience import SECONDS
from tests.webapp import journal_builder
from tests.webapp.conftest import People
from webapp import asgi
from webapp.operations import request_bodies
from webapp.runs.models import Run
from webapp.teams.actions import do_create_token


@pytest.fixture(autouse=True)
async def _close_connections(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Requests and their checks query in threads, whose connections would keep the test database open."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    yield
    await sync_to_async(connections.close_all)()


MEBIBYTE = 1024 * 1024


@dataclass
class Answer:
    """What the server sent, and how many bytes it took before."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    taken: int = 0


async def post(path: str, body: Iterator[bytes], method: str = "POST", **headers: str) -> Answer:
    """The answer of the site's ASGI application to a request whose body is sent until the answer begins."""
    sent = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()
    ]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": sent,
        "scheme": "http",
    }
    answer, ended = Answer(), False

    async def receive() -> dict[str, Any]:
        nonlocal ended
        if ended:
            await asyncio.Event().wait()  # the client waits for the answer
        piece = next(body, None)
        answer.taken += len(piece or b"")
        ended = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": not ended}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], dict(message["headers"])
        else:
            answer.body += message.get("body", b"")

    await asgi.application(scope, receive, send)
    return answer


def zeros(mebibytes: int) -> Iterator[bytes]:
    yield from [bytes(MEBIBYTE)] * mebibytes


@pytest.mark.parametrize("path", ["/login", "/nothing", "/healthz", "/api/runs"])
@pytest.mark.django_db(transaction=True)
async def test_a_large_body_is_refused_before_it_is_stored(path: str) -> None:
    announced = await post(path, zeros(150), content_length=str(150 * MEBIBYTE))
    assert (announced.status, announced.taken) == (413, 0)
    chunked = await post(path, zeros(150))
    assert (chunked.status, chunked.taken) == (413, 4 * MEBIBYTE)
    assert chunked.headers[b"connection"] == b"close"
    assert b"at most 3,145,728 bytes" in chunked.body


@pytest.mark.django_db(transaction=True)
async def test_a_large_journal_needs_a_sender_that_is_known(people: People, settings: Settings) -> None:
    path = "/api/runs/import"
    for headers in ({}, {"authorization": "Bearer es_" + "a" * 24}, {"cookie": "echoscope_session=abcdefghijkl"}):
        answer = await post(path, zeros(10), **headers)
        assert (answer.status, answer.taken) == (401, 4 * MEBIBYTE)
        assert b"Authorization: Bearer" in answer.body
    _, secret = await sync_to_async(do_create_token)(people.team, people.owner, "test", ["read", "write"])
    settings.ECHOSCOPE_UPLOAD_MB = 6
    known = await post(path, zeros(10), authorization=f"Bearer {secret}")
    assert (known.status, known.taken) == (413, 8 * MEBIBYTE)  # 6 MiB, and one for a form
    start = journal_builder.started().model_copy(update={"seq": 1}).model_dump_json().encode() + b"\n"
    notice = journal_builder.journal.Notice(seq=2, level="info", message="x" * 4 * MEBIBYTE)
    lines = iter([start, notice.model_dump_json().encode() + b"\n"])
    imported = await post(path, lines, authorization=f"Bearer {secret}", content_type="application/x-ndjson")
    assert imported.status == 201
    assert await sync_to_async(Run.objects.get)()


@pytest.mark.django_db(transaction=True)
async def test_a_session_may_send_a_journal_too(people: People) -> None:
    client = Client()
    await sync_to_async(client.force_login)(people.owner)
    cookie = f"echoscope_session={client.cookies['echoscope_session'].value}"
    answer = await post("/api/runs/x/journal", zeros(4), "PUT", cookie=cookie)
    assert answer.status in (403, 404, 422)  # the view's own answer
    assert answer.taken == 4 * MEBIBYTE


async def test_a_body_that_stops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "BODY_TIMEOUT", 0.01)
    scope = {"type": "http", "method": "POST", "path": "/login", "headers": [(b"content-length", b"100")]}
    request = ApplicationCommunicator(request_bodies.limit_bodies(asgi.application.application_mapping["http"]), scope)
    await request.send_input({"type": "http.request", "body": b"half", "more_body": True})
    start = await request.receive_output(SECONDS)
    assert start["status"] == 408
    assert dict(start["headers"])[b"connection"] == b"close"
    await request.receive_output(SECONDS)
    await request.wait(SECONDS)


async def test_a_body_of_one_byte_now_and_then_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "WHOLE_TIMEOUT", 0.05)
    received: list[int] = []

    async def view(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            received.append(1)

    async def drip() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/login", "headers": []}
    async with asyncio.timeout(SECONDS):
        await request_bodies.limit_bodies(view)(scope, drip, send)
    assert sent[0]["status"] == 408
    assert b"too slowly" in sent[1]["body"]
    assert len(received) <= 5


async def test_a_response_may_take_longer_than_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "BODY_TIMEOUT", 0.01)
    waited: list[str] = []

    async def view(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        waited.append((await receive())["type"])

    request = ApplicationCommunicator(
        request_bodies.limit_bodies(view), {"type": "http", "method": "GET", "path": "/", "headers": []}
    )
    await request.send_input({"type": "http.request", "body": b"", "more_body": False})
    assert await request.receive_nothing(0.1)
    await request.send_input({"type": "http.disconnect"})
    await request.wait(SECONDS)
    assert waited == ["http.disconnect"]
