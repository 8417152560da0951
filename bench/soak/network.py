"""TCP proxy on loopback between a part of the product and its PostgreSQL or Redis: slow, silent or resetting."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

from webapp.services.addresses import LOOPBACK, free_port

CHUNK = 64 * 1024
DELAY = 0.05  # seconds for each chunk in each direction
RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: close sends RST


class Weather(StrEnum):
    """Behaviour of a proxy."""

    FINE = "fine"
    SLOW = "slow"
    SILENT = "silent"


class Proxy:
    """Forwards connections to the port that `target` returns at the time of the connection. Runs in one event loop."""

    def __init__(self, target: Callable[[], int | None]) -> None:
        self.port = free_port()
        self._target = target
        self.weather = Weather.FINE
        self._clear = asyncio.Event()
        self._clear.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, LOOPBACK, self.port)

    async def set_weather(self, weather: Weather) -> None:
        """Change the behaviour of all connections, present and future."""
        self.weather = weather
        if weather == Weather.SILENT:
            self._clear.clear()
        else:
            self._clear.set()

    async def reset(self) -> None:
        """Break off all connections with RST."""
        for writer in list(self._open):
            end = writer.get_extra_info("socket")
            with suppress(OSError):  # already closed
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        await self.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            await self._clear.wait()
            port = self._target()
            if port is None:
                return
            back, there = await asyncio.open_connection(LOOPBACK, port)
            self._open.add(there)
            ways = [asyncio.create_task(self._forward(reader, there)), asyncio.create_task(self._forward(back, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in filter(None, (writer, there)):
                self._open.discard(end)
                end.transport.abort()
            self._tasks.discard(task)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(CHUNK):
                await self._clear.wait()
                if self.weather == Weather.SLOW:
                    await asyncio.sleep(DELAY)
                target.write(data)
                await target.drain()
        except OSError:
            pass
