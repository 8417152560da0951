"""The queue of drawings: one at a time, few wait, finished files are kept up to a number of bytes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.patience import SECONDS
from webapp.trajectories.render.drawing_queue import DrawingBusy, DrawingQueue, FileCache


def test_only_few_wait_and_the_others_are_refused_at_once() -> None:
    queue = DrawingQueue(max_waiting=2, timeout=SECONDS)
    began, release = threading.Event(), threading.Event()
    drawn: list[str] = []

    def draw(name: str) -> bytes:
        def make() -> bytes:
            drawn.append(name)
            began.set()
            release.wait(SECONDS)
            return name.encode()

        with queue.place():
            return queue.draw(name, make)

    with ThreadPoolExecutor(3) as pool:
        try:
            first = pool.submit(draw, "a")
            assert began.wait(SECONDS)
            waiting = [pool.submit(draw, name) for name in ("a", "b")]
            deadline = time.monotonic() + SECONDS
            while queue._places._value and time.monotonic() < deadline:  # until both wait
                time.sleep(0.001)
            with pytest.raises(DrawingBusy):
                draw("c")
        finally:
            release.set()
        assert [job.result() for job in (first, *waiting)] == [b"a", b"a", b"b"]
    assert drawn == ["a", "b"]  # the second request for a got the file of the first
    with queue.place():
        assert queue.draw("c", lambda: b"c") == b"c"


def test_a_drawing_that_fails_frees_its_place() -> None:
    queue = DrawingQueue(max_waiting=0, timeout=0.0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), queue.place():
            queue.draw("a", lambda: bytes(1 // 0))
    with queue.place():
        assert queue.draw("a", lambda: b"a") == b"a"


def test_the_cache_keeps_the_newest_files_within_its_bytes() -> None:
    cache = FileCache(100)
    for name in "abcd":
        cache.put(name, name.encode() * 25)
    assert cache.get("a") == b"a" * 25  # now the newest
    cache.put("e", b"e" * 20)
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cache.size == 95
    cache.put("e", b"e" * 10)
    assert cache.size == 85
    cache.put("huge", b"h" * 26)
    assert cache.get("huge") is None
    cache.clear()
    assert (cache.size, cache.get("a")) == (0, None)
