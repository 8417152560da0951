"""A lock that prevents two simultaneous set-ups of one checkout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Lock a file; waits while another process has locked it."""
    import fcntl  # missing on Windows, where a sentence explains it

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  … another set-up is running in this checkout; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
