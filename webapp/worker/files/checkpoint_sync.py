"""Background thread that uploads checkpoints to object storage and fetches a run's copy from there.

Storage failures are reported and retried; training continues.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.files.storage import Storage
from django.db import DatabaseError, connection

from trainer.journal.events import CheckpointRemoved, Notice
from trainer.journal.protocol import CHECKPOINT_STATE, CHECKPOINTS_FOLDER
from webapp.runs import object_storage
from webapp.runs.models import EventBatch, Run
from webapp.runs.object_storage import Manifest
from webapp.runs.untrusted_folder import UntrustedFolder

logger = logging.getLogger(__name__)

RETRY_INTERVAL = 30.0
"""Seconds from a failed upload to the next attempt."""


@dataclass(frozen=True)
class SyncResult:
    """Result of an upload: the newest checkpoint in the copy (-1: none), or the reason of a failure."""

    iteration: int
    problem: str = ""


@dataclass(frozen=True)
class FetchResult:
    """Result of a fetch: bytes of the fetched journal, or None and the reason of the failure."""

    journal_bytes: int | None
    problem: str = ""


class CheckpointSync:
    """Uploads and fetches of one run, one at a time."""

    def __init__(self, slug: str, folder: Path, storage: Storage) -> None:
        self.slug, self.folder, self.storage = slug, folder, storage
        self._manifest: Manifest | None = None
        self._uploaded: object = None
        self._result: SyncResult | None = None
        self._fetch_result: FetchResult | None = None
        self._thread: threading.Thread | None = None
        self._retry_at = 0.0
        self._cancelled = False

    def poll(self) -> SyncResult | None:
        """Start an upload if there is a new checkpoint. Returns the result of an upload that has ended since."""
        result = self.result()
        if result is None and not self.busy and time.monotonic() >= self._retry_at:
            checkpoints = self._checkpoints()
            if checkpoints and checkpoints != self._uploaded:
                self._start(lambda: self._upload(checkpoints))
        return result

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def finish(self) -> None:
        """Start a final upload after the running one has ended."""
        earlier = self._thread

        def work() -> None:
            if earlier is not None:
                earlier.join()
            self._upload(self._checkpoints())

        self._start(work)

    def result(self) -> SyncResult | None:
        """Return the result of the newest upload, once."""
        result, self._result = self._result, None
        return result

    def fetch(self, run: Run) -> None:
        """Start to fetch the run's copy into its folder."""
        self._fetch_result = None

        def work() -> None:
            problems: tuple[type[Exception], ...] = (DatabaseError, *object_storage.failures())
            try:
                size = object_storage.fetch(
                    self.folder,
                    self.storage,
                    self.slug,
                    lambda lines: journal_after(run, lines),
                    lambda: self._cancelled,
                )
                self._fetch_result = FetchResult(size)
            except problems as error:
                logger.warning("Run %s: its copy cannot be fetched: %s", self.slug, error)
                self._fetch_result = FetchResult(None, first_line(error))
            finally:
                connection.close()

        self._start(work)

    def fetch_result(self) -> FetchResult:
        """Return the result of the newest fetch."""
        return self._fetch_result or FetchResult(None, "the fetch was interrupted")

    def cancel(self) -> None:
        """Abandon a running fetch."""
        self._cancelled = True

    def _start(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name=f"copy of {self.slug}", daemon=True)
        self._thread.start()

    def _upload(self, checkpoints: object) -> None:
        try:
            if self._manifest is None:
                self._manifest = object_storage.read_manifest(self.storage, self.slug) or Manifest()
            self._manifest = object_storage.copy(self.folder, self.storage, self.slug, self._manifest)
        except object_storage.failures() as error:
            logger.warning("Run %s: its files cannot be copied: %s", self.slug, error)
            self._manifest, self._retry_at = None, time.monotonic() + RETRY_INTERVAL
            self._result = SyncResult(-1, first_line(error))
        else:
            self._uploaded = checkpoints
            self._result = SyncResult(max(self._manifest.checkpoints, default=-1))

    def _checkpoints(self) -> tuple[tuple[str, int], ...]:
        """Return (name, time of change) of every complete checkpoint in the folder, including the initial one."""
        inside, initial = UntrustedFolder(self.folder), object_storage.INITIAL_FOLDER
        checkpoints = []
        for parent in ("", *(f"{initial}/{slug}/" for slug in inside.folders(initial))):
            for name in inside.folders(f"{parent}{CHECKPOINTS_FOLDER}"):
                with (
                    suppress(FileNotFoundError),
                    inside.open(f"{parent}{CHECKPOINTS_FOLDER}/{name}/{CHECKPOINT_STATE}") as state,
                ):
                    checkpoints.append((name, os.fstat(state.fileno()).st_mtime_ns))
        return tuple(checkpoints)


def first_line(error: Exception) -> str:
    """Return the type and first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def journal_after(run: Run, lines: int) -> Iterator[bytes]:
    """Yield the journal's lines after the first `lines`, rebuilt from the stored websocket frames.

    Every line keeps its number. One notice with their number replaces the token arrays, which the database already has,
    and the pruned frames; events that readers skip fill the gap (docs/journal.md, "Restored journals").
    """
    lost = sum(event is None for _, event in _stored_events(run, lines))
    noticed = False
    for seq, event in _stored_events(run, lines):
        if event is not None:
            yield (json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
            continue
        placeholder = _filler(seq) if noticed else _notice(seq, lost)
        noticed = True
        yield (placeholder.model_dump_json(exclude_none=True) + "\n").encode()


def _stored_events(run: Run, lines: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield (seq, event) of each line after the first `lines`; None for lines that are missing from the frames."""
    expected = lines + 1
    batches = EventBatch.objects.filter(run=run, last_seq__gt=lines).order_by("last_seq")
    for frame in batches.values_list("frame", flat=True).iterator():
        for event in json.loads(frame)["events"]:
            if event["seq"] < expected:
                continue
            yield from ((seq, None) for seq in range(expected, event["seq"]))
            expected = event["seq"] + 1
            event.pop("slugs", None)
            yield event["seq"], None if event["type"] == "trajectory_tokens" else event
    yield from ((seq, None) for seq in range(expected, run.seq + 1))


def _notice(seq: int, lost: int) -> Notice:
    events = "1 event of the journal is" if lost == 1 else f"{lost:,} events of the journal are"
    message = f"{events} only in the database: the worker was lost before the journal was copied."
    return Notice(seq=seq, time=time.time(), level="info", message=message)


def _filler(seq: int) -> CheckpointRemoved:
    """Return an event that is no log line and changes no state: no checkpoint has this iteration."""
    return CheckpointRemoved(seq=seq, time=time.time(), iteration=-1)
