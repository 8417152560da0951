"""The clients of the live benchmark: they read any split of the stream, and notice what is lost or comes twice."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from bench.lib.site.socket_watchers import BIN, Arrivals, Watcher, quantile

ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def frame(text: str) -> bytes:
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=False)


def events(first: int, last: int, padding: int = 0) -> bytes:
    return frame(f'{{"type":"events","first":{first},"last":{last},"events":["{"ö" * padding}"]}}')


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    client, server = socket.socketpair()
    with client, server:
        yield client, server


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 70_000)), max_size=6), st.data())
def test_the_stream_may_be_split_anywhere(counts: list[tuple[int, int]], data: st.DataObject) -> None:
    client, server = socket.socketpair()
    with client, server:
        stream, expected, first = ACCEPTED + frame('{"type": "hello", "seq": 0}'), [], 1
        for count, padding in counts:
            stream += frame('{"type": "ping"}') + events(first, first + count - 1, padding)
            expected.append((first, first + count - 1))
            first += count
        watcher = Watcher(client)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            watcher.feed(stream[begin:end])
        assert watcher.frames == expected
        assert watcher.greeted
        assert (watcher.missing, watcher.twice, watcher.broken) == (0, 0, False)
        if counts:
            assert server.recv(65536).count(b'{"type":"pong"}') == len(counts)


def test_a_frame_counts_when_its_end_has_arrived(pair: tuple[socket.socket, socket.socket]) -> None:
    watcher, data = Watcher(pair[0]), events(1, 3, padding=500)
    watcher.feed(ACCEPTED + data[:-1])
    assert watcher.frames == []
    watcher.feed(data[-1:])
    assert watcher.frames == [(1, 3)]


def test_gaps_repetitions_resyncs_and_closes_are_noticed(pair: tuple[socket.socket, socket.socket]) -> None:
    watcher = Watcher(pair[0])
    watcher.feed(ACCEPTED + events(1, 3) + events(6, 8) + events(7, 9) + frame('{"type": "resync", "seq": 9}'))
    assert (watcher.missing, watcher.twice, watcher.resyncs, watcher.broken) == (2, 2, 1, False)
    watcher.feed(Frame(Opcode.CLOSE, b"\x03\xf5").serialize(mask=False))
    assert watcher.broken
    refused = Watcher(pair[0])
    refused.feed(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    assert refused.is_settled
    assert refused.broken


def test_ages_are_those_of_each_event_at_each_socket() -> None:
    now = time.monotonic()
    written = np.array([0.0, now - 1.0, now - 0.5, now - 0.1])
    arrivals = Arrivals(written)
    for _ in range(10):
        arrivals.add(1, 2, now)
    arrivals.add(3, 3, now)
    histogram = arrivals.histogram()
    assert histogram.sum() == 21
    assert quantile(histogram, 0.02) == pytest.approx(0.1, abs=2 * BIN)
    assert quantile(histogram, 0.5) == pytest.approx(0.5, abs=2 * BIN)
    assert quantile(histogram, 1.0) == pytest.approx(1.0, abs=2 * BIN)
