"""Unfinished requests on real sockets: the connection ends in time, and requests that arrive in time do not suffer."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from websockets.sync.client import connect

from tests.patience import SECONDS
from webapp.services import request_deadlines
from webapp.services.programs import HTTP

HEAD, BODY = 0.5, 1.0
GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n"


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the number of bytes of the request's body; echoes on websockets."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if b"pause" in message.get("body", b""):
            await asyncio.sleep(3 * BODY)  # as a site does that is busy
    text = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(request_deadlines, "HEAD_SECONDS", HEAD)
    monkeypatch.setattr(request_deadlines, "BODY_SECONDS", BODY)
    config = uvicorn.Config(
        application, port=0, lifespan="off", log_level="critical", http=HTTP, timeout_keep_alive=600
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + SECONDS
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def received(client: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


def answer(client: socket.socket) -> bytes:
    """Body of one response with a length."""
    text = b""
    while b"\r\n\r\n" not in text or text.endswith(b"\r\n\r\n"):
        part = client.recv(65536)
        assert part, text
        text += part
    return text.partition(b"\r\n\r\n")[2]


UNFINISHED = {
    "half a head": GET[:20],
    "an unfinished header": GET.replace(b"\r\n\r\n", b"\r\nX: "),
    "an empty line": b"\r\n",
    "no body": POST % 10,
    "half a body": POST % 10 + b"12345",
}


def assert_ended(client: socket.socket) -> None:
    """The server closes the connection without an answer, and not at once."""
    began = time.monotonic()
    assert received(client) == b""
    assert time.monotonic() - began > 0.9 * HEAD


@pytest.mark.parametrize("beginning", [b"", *UNFINISHED.values()], ids=["nothing", *UNFINISHED])
def test_a_connection_whose_request_does_not_arrive_is_ended(beginning: bytes, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        client.sendall(beginning)
        assert_ended(client)


@pytest.mark.parametrize("beginning", UNFINISHED.values(), ids=UNFINISHED)
def test_a_later_request_has_the_same_deadlines(beginning: bytes, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        client.sendall(GET)
        assert answer(client) == b"0"
        client.sendall(beginning)
        assert_ended(client)


@pytest.mark.parametrize("beginning", [b"GET / HTTP/1.1\r\nX: ", POST % 10_000], ids=["head", "body"])
def test_bytes_that_trickle_do_not_hold_a_connection(beginning: bytes, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        client.sendall(beginning)
        deadline = time.monotonic() + SECONDS
        try:
            while time.monotonic() < deadline:
                client.sendall(b"x")
                time.sleep(0.05)
        except ConnectionError:
            return
    pytest.fail("the connection was held")


def test_a_slow_upload_arrives_and_the_connection_serves_further_requests(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        client.sendall(POST % 30_000)
        for _ in range(30):  # more than BODY_SECONDS in all
            client.sendall(bytes(1000))
            time.sleep(2 * BODY / 30)
        assert answer(client) == b"30000"
        time.sleep(2 * HEAD)
        client.sendall(GET)
        assert answer(client) == b"0"


def test_a_site_that_is_busy_loses_no_upload(port: int) -> None:
    size = 400_000
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        client.sendall(POST % size + b"pause" + bytes(size - 5))
        assert answer(client) == str(size).encode()


def test_a_websocket_has_no_deadline(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/") as client:
        time.sleep(2 * BODY)
        client.send("still here")
        assert client.recv(timeout=SECONDS) == "still here"
