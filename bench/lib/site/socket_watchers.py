"""Thousands of watching sockets in one process: an epoll loop that reads only the head of each frame.

A client library would decode every message and saturate before the server does. Here a read serves as many frames as
have arrived, the payload behind the head of a frame is skipped, and ages are computed at the end, from the arrival of
each frame (`Arrivals`).
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from collections import Counter
from urllib.parse import urlsplit

import numpy as np

EVENTS = re.compile(rb'\{"type":\s*"events",\s*"first":\s*(\d+),\s*"last":\s*(\d+)')
HEAD_BYTES = 96
"""Bytes of a payload that contain the type and both numbers."""
READ_BYTES = 1 << 18
PONG = b'{"type":"pong"}'
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
BIN = 0.001
"""Width of a bin of ages, in seconds."""
LONGEST = 120.0


def masked(payload: bytes) -> bytes:
    """Return a short text frame of a client, with a mask of zeros."""
    return bytes((0x81, 0x80 | len(payload), 0, 0, 0, 0)) + payload


class Watcher:
    """One socket, which checks that its events are contiguous."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.upgraded = self.greeted = self.broken = False
        self.cursor = self.missing = self.twice = self.resyncs = 0
        self.frames: list[tuple[int, int]] = []
        """First and last event of the frames whose end has arrived; emptied by the reader."""
        self._unfinished: tuple[int, int] | None = None
        self._rest = b""
        self._skip = 0

    @property
    def is_settled(self) -> bool:
        """True if the server has admitted or refused the socket."""
        return self.greeted or self.broken

    def feed(self, data: bytes) -> None:
        """Process bytes from the server."""
        if self._skip > len(data):
            self._skip -= len(data)
            return
        data = self._rest + data[self._skip :]
        self._skip, offset = 0, 0
        self._finish()
        if not self.upgraded:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._rest = data
                return
            self.upgraded, offset = True, end + 4
            self.broken = not data.startswith(b"HTTP/1.1 101")
        while len(data) - offset >= 2:
            head, length = 2, data[offset + 1] & 127
            if length > 125:
                head = 4 if length == 126 else 10
                if len(data) - offset < head:
                    break
                length = int.from_bytes(data[offset + 2 : offset + head], "big")
            if len(data) - offset < head + min(length, HEAD_BYTES):
                break
            begin = offset + head
            self._receive(data[offset] & 15, data[begin : begin + min(length, HEAD_BYTES)])
            offset = begin + length
            if offset <= len(data):
                self._finish()
        self._skip = max(0, offset - len(data))
        self._rest = data[offset:]

    def _receive(self, opcode: int, text: bytes) -> None:
        if opcode == 8:
            self.broken = True
        elif match := EVENTS.match(text):
            first, last = int(match[1]), int(match[2])
            if self.cursor:
                self.missing += max(0, first - self.cursor - 1)
                self.twice += max(0, self.cursor + 1 - first)
            self.cursor = last
            self._unfinished = first, last
        elif text.startswith(b'{"type": "ping"'):
            self.connection.send(masked(PONG))
        elif text.startswith(b'{"type": "hello"'):
            self.greeted = True
        elif text.startswith(b'{"type": "resync"'):
            self.resyncs += 1

    def _finish(self) -> None:
        if self._unfinished is not None:
            self.frames.append(self._unfinished)
            self._unfinished = None


class Arrivals:
    """Histogram of the ages of events on arrival, in bins of BIN seconds."""

    def __init__(self, written: np.ndarray) -> None:
        self._written = written
        self._frames: Counter[tuple[int, int, int]] = Counter()
        """Number of sockets by first event, last event and time of arrival in bins."""

    def add(self, first: int, last: int, now: float) -> None:
        self._frames[first, last, int(now / BIN)] += 1

    def histogram(self) -> np.ndarray:
        """Return the number of deliveries by age."""
        counts = np.zeros(int(LONGEST / BIN) + 1)
        for (first, last, moment), sockets in self._frames.items():
            ages = ((moment + 0.5) - self._written[first : last + 1] / BIN).astype(int)
            np.add.at(counts, np.clip(ages, 0, len(counts) - 1), sockets)
        return counts


def quantile(histogram: np.ndarray, share: float) -> float:
    """Return the age in seconds below which that share of the deliveries is."""
    if not histogram.sum():
        return 0.0
    return (int(np.searchsorted(np.cumsum(histogram), share * histogram.sum())) + 1) * BIN


class Watchers:
    """The sockets of this process."""

    def __init__(self, url: str, written: np.ndarray) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self._address = ("127.0.0.1", parts.port)
        self._request = UPGRADE.format(path=f"{parts.path}?{parts.query}", host=parts.netloc).encode()
        self._poll = select.epoll()
        self._by_number: dict[int, Watcher] = {}
        self._unsettled = 0
        self.arrivals = Arrivals(written)
        self.turns: list[float] = []
        """Seconds of each turn of the loop, the longest that an arrived frame may have waited for this process."""

    @property
    def all(self) -> list[Watcher]:
        return list(self._by_number.values())

    def open(self, sockets: int, source: str, at_once: int, deadline: float) -> None:
        """Connect so many sockets from an address of the loopback network; returns when each was greeted."""
        for _ in range(sockets):
            self._settle(at_once - 1, deadline)
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.bind((source, 0))
            connection.connect(self._address)
            connection.sendall(self._request)
            connection.setblocking(False)
            self._by_number[connection.fileno()] = Watcher(connection)
            self._poll.register(connection, select.EPOLLIN)
            self._unsettled += 1
        self._settle(0, deadline)

    def _settle(self, count: int, deadline: float) -> None:
        """Read until at most so many sockets are neither admitted nor refused."""
        while self._unsettled > count:
            self.turn(1.0)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the server has not answered {self._unsettled} sockets")

    def turn(self, seconds: float) -> None:
        """Wait for data, and read all sockets that have some."""
        ready = self._poll.poll(seconds, maxevents=len(self._by_number) or 1)
        began = time.monotonic()
        for number, _ in ready:
            watcher = self._by_number[number]
            try:
                data = watcher.connection.recv(READ_BYTES)
            except BlockingIOError:
                continue
            except ConnectionError:
                data = b""
            was_settled = watcher.is_settled
            if data:
                watcher.feed(data)
            else:
                watcher.broken = True
                self._poll.unregister(number)
            self._unsettled -= watcher.is_settled and not was_settled
            if watcher.frames:
                now = time.monotonic()
                for first, last in watcher.frames:
                    self.arrivals.add(first, last, now)
                watcher.frames.clear()
        if ready:
            self.turns.append(time.monotonic() - began)
