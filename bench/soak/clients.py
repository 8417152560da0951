"""Websocket clients that follow runs as a page does, and drop, stall and reconnect with their cursor."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin

from bench.soak.checks import Received, digest
from bench.soak.histories import CommitWatch

RETRY = 0.3  # seconds
OPEN_TIMEOUT = 10.0
SILENCE = 50.0  # seconds without a frame after which a page reconnects
GONE = (4403, 4404)


class Manner(StrEnum):
    """Behaviour of a client."""

    STEADY = "steady"
    DROPS = "drops its connection"
    STALLS = "stops reading"


@dataclass
class Follower:
    """One client of one run. Reconnects until it is stopped.

    Attributes:
        url: address of the web server, which may change between two connections.
        commits: compares received events with the database.
        segments: everything received, for `checks.client_faults`.
        connections: connections that were admitted, as shown by the first hello.
    """

    url: Callable[[], str]
    slug: str
    cookie: str
    manner: Manner
    dice: random.Random
    commits: CommitWatch
    segments: list[Received] = field(default_factory=list)
    connections: int = 0
    drops: int = 0
    stalls: int = 0
    refused: int = 0
    stopped: bool = False

    @property
    def cursor(self) -> int:
        """Last event that it has received."""
        if not self.segments:
            return 0
        last = self.segments[-1]
        return last.events[-1][0] if last.events else last.after

    def has_all(self, seq: int, rebuilds: int) -> bool:
        """Return True if it has received all events of a run, up to that one, since its last rebuild."""
        return bool(self.segments) and self.segments[-1].rebuilds == rebuilds and self.cursor >= seq

    async def follow(self) -> None:
        """Follow the run until `stopped`."""
        while not self.stopped:
            try:
                if not self.segments or self._wants_snapshot:
                    await self._load_snapshot()
                await self._listen()
            except (OSError, WebSocketException, httpx.HTTPError, TimeoutError, ValueError):
                pass
            await asyncio.sleep(RETRY * (0.5 + self.dice.random()))

    _wants_snapshot: bool = False

    async def _load_snapshot(self) -> None:
        async with httpx.AsyncClient(timeout=OPEN_TIMEOUT, headers={"Cookie": self.cookie}, verify=False) as client:
            answer = await client.get(f"{self.url()}/runs/{self.slug}/snapshot.json")
        answer.raise_for_status()
        snapshot = answer.json()
        self.segments.append(Received(snapshot["rebuilds"], snapshot["seq"]))
        self._wants_snapshot = False

    async def _listen(self) -> None:
        base = self.url()
        address = f"{base.replace('http', 'ws', 1)}/ws/runs/{self.slug}/"
        async with connect(
            f"{address}?after={self.cursor}&rebuilds={self.segments[-1].rebuilds}",
            origin=Origin(base),
            additional_headers={"Cookie": self.cookie},
            compression=None,
            max_size=None,
            open_timeout=OPEN_TIMEOUT,
            close_timeout=1,
        ) as socket:
            if self.manner == Manner.STEADY:
                await socket.send('{"type": "watch", "trajectory": "*"}')
            until = self._patience()
            while not self.stopped and not self._wants_snapshot:
                await self._receive(socket)
                until -= 1
                if until == 0:
                    if self.manner == Manner.DROPS:
                        self.drops += 1
                        socket.transport.abort()
                        return
                    self.stalls += 1
                    await asyncio.sleep(self.dice.uniform(0.5, 4))

    def _patience(self) -> int:
        """Return the frames until it drops or stalls; negative: never."""
        return -1 if self.manner == Manner.STEADY else self.dice.randint(5, 80)

    async def _receive(self, socket: ClientConnection) -> None:
        try:
            async with asyncio.timeout(SILENCE):
                text = await socket.recv()
        except WebSocketException:
            self.refused += socket.close_code in GONE
            raise
        frame = json.loads(text)
        match frame["type"]:
            case "hello":
                self.connections += 1
            case "ping":
                await socket.send('{"type": "pong"}')
            case "resync":
                self._wants_snapshot = True
            case "events":
                self.commits.received(self.slug, self.segments[-1].rebuilds, frame["events"][-1]["seq"])
                self.segments[-1].events += [(event["seq"], digest(event)) for event in frame["events"]]
