"""Progress of an installation, as figures for a bar."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainer.models.store import folder_bytes

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class FetchProgress:
    """A report of an installation.

    Attributes:
        stage: download, convert (GGUF to safetensors) or check (digests, and whether the files are complete).
        done: bytes finished in this stage.
        total: bytes of the stage; 0 if unknown.
    """

    stage: Literal["download", "convert", "check"]
    done: int
    total: int


Report = Callable[[FetchProgress], None]


def ignore(progress: FetchProgress) -> None:
    """Discard a report."""


@contextmanager
def watching_folder(folder: Path, total: int, report: Report) -> Iterator[None]:
    """Report the size of a growing folder while the block runs: neither pip nor the Hub's client tells it to others."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            report(FetchProgress("download", min(folder_bytes(folder), total), total))

    report(FetchProgress("download", min(folder_bytes(folder), total), total))
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    report(FetchProgress("download", total, total))
