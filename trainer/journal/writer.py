"""Append-only writer of journals."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from trainer.journal import run_log
from trainer.journal.events import Event
from trainer.journal.protocol import JOURNAL_FILE

BLOCK = 1 << 20


def sync_to_disk(path: Path) -> None:
    """Call fsync on a file or folder: a new file or a rename into place must survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Journal:
    """Append-only writer. Opening an existing journal truncates an incomplete last line and continues its numbering.

    `append` opens a file of the folder by name, unbuffered, for reading and appending.
    """

    def __init__(self, folder: Path, append: Callable[[str], BinaryIO] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / JOURNAL_FILE
        self.listeners: list[Callable[[Event], None]] = []
        """Called with every event once it is written."""
        self._file = append(JOURNAL_FILE) if append else self.path.open("a+b", buffering=0)
        self.seq = self._recover()
        sync_to_disk(folder)  # the entry of a new file

    def _recover(self) -> int:
        count = end = read = 0
        while block := os.pread(self._file.fileno(), BLOCK, read):
            count += block.count(b"\n")
            if b"\n" in block:
                end = read + block.rfind(b"\n") + 1
            read += len(block)
        if end != read:
            os.ftruncate(self._file.fileno(), end)
        return count

    def write(self, *events: Event) -> None:
        """Number, stamp and append the events in one write: a reader sees all of a batch or nothing.

        Raises:
            OSError: for example, the disk is full. The journal then ends with the last completely written event, so
                that a later one, such as the end of the run, can still follow.
        """
        if not events:
            return
        lines = []
        for number, event in enumerate(events, self.seq + 1):
            event.seq, event.time = number, time.time()
            lines.append(
                json.dumps(
                    event.model_dump(exclude_none=True), ensure_ascii=False, separators=(",", ":"), allow_nan=False
                )
            )
        end, remaining = os.fstat(self._file.fileno()).st_size, memoryview(("\n".join(lines) + "\n").encode())
        try:
            while remaining:  # a nearly full disk accepts a part, and only the next write raises
                remaining = remaining[self._file.write(remaining) :]
        except OSError:
            self.seq += self._drop_incomplete_line(end)
            raise
        self.seq += len(events)
        for event in events:
            run_log.log_event(event)
        for listener in self.listeners:
            for event in events:
                listener(event)

    def _drop_incomplete_line(self, end: int) -> int:
        """Truncate the incomplete line of a failed write. Returns the number of lines that the write completed.

        `end` is the size of the file before that write. Complete lines are kept: a reader may have read them.
        """
        written = os.pread(self._file.fileno(), os.fstat(self._file.fileno()).st_size - end, end)
        complete = written.rfind(b"\n") + 1
        if complete < len(written):
            os.ftruncate(self._file.fileno(), end + complete)
        return written.count(b"\n")

    def sync(self) -> None:
        """Wait until everything written is on disk.

        Called before a checkpoint is completed and at the end of a run, so that after a power cut the journal reaches
        at least as far as the newest checkpoint.
        """
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Sync and close the file."""
        if not self._file.closed:
            self.sync()
        self._file.close()
