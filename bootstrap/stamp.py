"""Remembers what a finished step was made from, so that the second start skips it. The steps are elsewhere."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def digest(parts: Iterable[str | Path]) -> str:
    """One hash of the contents of files and of words. A file that is missing counts as empty."""
    total = hashlib.sha256()
    for part in parts:
        content = (part.read_bytes() if part.exists() else b"") if isinstance(part, Path) else part.encode()
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def is_current(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text(encoding="utf-8") == wanted


def write(stamp: Path, value: str) -> None:
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(value, encoding="utf-8")


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Two set-ups in the same checkout take turns."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  … another set-up is running in this checkout; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
