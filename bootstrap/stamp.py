"""Stamps of finished steps: digests of their inputs, so that unchanged steps are skipped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def digest(parts: Iterable[str | Path]) -> str:
    """Hash of file contents and texts. A missing file counts as empty."""
    total = hashlib.sha256()
    for part in parts:
        content = (part.read_bytes() if part.exists() else b"") if isinstance(part, Path) else part.encode()
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def is_current(stamp: Path, value: str) -> bool:
    """Whether the step that wrote `stamp` has had the inputs of the digest `value`."""
    return stamp.exists() and stamp.read_text(encoding="utf-8") == value


def write(stamp: Path, value: str) -> None:
    """Record the digest of a finished step."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(value, encoding="utf-8")


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Lock against a concurrent set-up in the same checkout; waits for it."""
    import fcntl  # Windows has none, and gets a sentence instead

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  … another set-up is running in this checkout; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
