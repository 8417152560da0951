"""Shared frames on real connections: every client reads the same text, and one that reads nothing holds nobody up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

from tests.patience import SECONDS, eventually
from webapp.live.shared_frames import SharedFrame, Write, find_write
from webapp.services.programs import WEBSOCKETS

TEXT = json.dumps({"type": "events", "thought": "Ich möchte → die Kiste schieben. " * 200}, ensure_ascii=False)
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Application:
    """Answers each message of a client with itself, and keeps the functions that write to its connections."""

    def __init__(self) -> None:
        self.writes: list[Write] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        self.writes.append(find_write(scope))
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})


@asynccontextmanager
async def served(application: Application) -> AsyncIterator[str]:
    config = uvicorn.Config(application, port=0, lifespan="off", log_level="critical", ws=WEBSOCKETS)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield f"ws://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    await task


@pytest.mark.parametrize(
    "offered",
    [
        None,
        [ClientPerMessageDeflateFactory()],
        [ClientPerMessageDeflateFactory(server_max_window_bits=9)],
        [ClientPerMessageDeflateFactory(server_no_context_takeover=True, client_max_window_bits=10)],
    ],
    ids=["plain", "usual", "small window", "no context"],
)
async def test_shared_frames_and_answers_alternate_on_every_kind_of_connection(offered: list[Any] | None) -> None:
    application, frame = Application(), SharedFrame(TEXT)
    async with served(application) as url, connect(url, extensions=offered, compression=None) as client:
        async with asyncio.timeout(SECONDS):
            for number in range(3):
                await client.send(f"answer {number} {TEXT}")
                assert await client.recv() == f"answer {number} {TEXT}"
                assert application.writes[0](frame)
                assert await client.recv() == TEXT


@pytest.mark.parametrize("offer", ["", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"])
async def test_frames_are_compressed_for_clients_that_accept_it(offer: str) -> None:
    application, frame = Application(), SharedFrame(TEXT)
    expected = frame.compressed if offer else frame.plain
    assert len(frame.compressed) < len(frame.plain) / 10
    async with served(application) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))
        writer.write(f"GET / HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}{offer}\r\n".encode())
        async with asyncio.timeout(SECONDS):
            await reader.readuntil(b"\r\n\r\n")
            await eventually(lambda: len(application.writes) == 1)
            assert application.writes[0](frame)
            assert await reader.readexactly(len(expected)) == expected
        writer.close()


async def test_a_client_that_reads_nothing_is_refused_more_and_one_that_left_as_well() -> None:
    application, frame = Application(), SharedFrame("x" * 100_000)
    async with served(application) as url:
        async with connect(url, compression=None, max_queue=1) as client, connect(url, compression=None) as other:
            for one in (client, other):
                await one.send("ready")
                await one.recv()
            lagging, quick = application.writes
            accepted = 0
            async with asyncio.timeout(SECONDS):
                while lagging(frame):
                    accepted += 1
                    await asyncio.sleep(0)
                assert quick(frame)
                assert len(await other.recv()) == 100_000
                for _ in range(accepted):
                    assert len(await client.recv()) == 100_000
                await eventually(lambda: lagging(SharedFrame("again")))
                assert await client.recv() == "again"
        await eventually(lambda: not lagging(frame) and not quick(frame))
