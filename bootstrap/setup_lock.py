"""The lock that keeps two set-ups of one checkout apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a lock file; waits for a process that holds it already."""
    import fcntl  # Windows has none, and gets a sentence instead

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  … another set-up is running in this checkout; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
