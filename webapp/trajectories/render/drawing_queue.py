"""Queue of this process's pictures and animations: one is drawn at a time, few wait, finished ones are cached.

Drawing is the most expensive work that visitors without an account can request, and each drawing keeps a core busy.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_WAITING = 4
"""Maximum number of waiting requests; further ones are refused at once."""
TIMEOUT = 20.0
CACHE_BYTES = 32 * 1024 * 1024
RETRY_AFTER = 10
"""Seconds after which a refused client should try again."""
BUSY = "The server is drawing other pictures and animations. Try again in a few seconds."


class DrawingBusy(Exception):
    """Too many requests wait, or the wait took too long."""


class FileCache:
    """Finished files by their ETag, at most `limit` bytes; the least recently requested ones are dropped first."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._files:
                self._files.move_to_end(key)
            return self._files.get(key)

    def put(self, key: str, data: bytes) -> None:
        """Cache a file of at most a quarter of the limit."""
        if len(data) > self.limit // 4:
            return
        with self._lock:
            self.size += len(data) - len(self._files.pop(key, b""))
            self._files[key] = data
            while self.size > self.limit:
                self.size -= len(self._files.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._files.clear()
            self.size = 0


class DrawingQueue:
    """Draws one file at a time, in the thread of the request."""

    def __init__(
        self, max_waiting: int = MAX_WAITING, timeout: float = TIMEOUT, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self.files = FileCache(cache_bytes)
        self.timeout = timeout
        self._slot = threading.Lock()
        self._places = threading.BoundedSemaphore(max_waiting + 1)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a waiting place, before anything is loaded. Raises DrawingBusy if there is none."""
        if not self._places.acquire(blocking=False):
            raise DrawingBusy
        try:
            yield
        finally:
            self._places.release()

    def get(self, key: str, load: Callable[[], Callable[[], bytes]]) -> bytes:
        """Return the file with that ETag, from the cache or drawn. Raises DrawingBusy, and exceptions of `load`.

        Args:
            load: loads what the file shows, releases its database connection, and returns the `make` of draw().
        """
        if (kept := self.files.get(key)) is not None:
            return kept
        with self.place():
            return self.draw(key, load())

    def draw(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return the file with that ETag, from the cache or from `make`. Raises DrawingBusy, and exceptions of `make`.

        The caller has a place() and must have released its database connection, and `make` may not query: others need
        the connection while this waits and draws.
        """
        if not self._slot.acquire(timeout=self.timeout):
            raise DrawingBusy
        try:
            if (kept := self.files.get(key)) is not None:  # drawn for another request meanwhile
                return kept
            data = make()
            self.files.put(key, data)
            return data
        finally:
            self._slot.release()


DRAWINGS = DrawingQueue()
"""The queue of this process."""
