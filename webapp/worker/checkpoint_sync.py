"""A thread beside a supervisor that keeps the copy of its run in object storage up to date, and fetches it.

What a copy is stands in copies.py. A storage that fails is told and tried again; training goes on meanwhile.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.core.files.storage import Storage
from django.db import DatabaseError, connection

from trainer.journal.events import Notice
from trainer.journal.protocol import CHECKPOINT_STATE, CHECKPOINTS_FOLDER
from webapp.runs import object_storage
from webapp.runs.models import EventBatch, Run
from webapp.runs.object_storage import Manifest

logger = logging.getLogger(__name__)

RETRY = 30.0
"""Seconds after which a storage that failed is asked again."""


@dataclass(frozen=True)
class SyncResult:
    """What became of a copy: the newest checkpoint in it (-1: none), or why it failed, in words."""

    iteration: int
    problem: str = ""


class CheckpointSync:
    """One run's copy. What fails becomes words for the run's page."""

    def __init__(self, slug: str, folder: Path, storage: Storage) -> None:
        self.slug, self.folder, self.storage = slug, folder, storage
        self._known: Manifest | None = None
        self._seen: object = None
        self._outcome: SyncResult | None = None
        self._thread: threading.Thread | None = None
        self._again = 0.0
        self._end = False

    def tend(self) -> SyncResult | None:
        """Begin a copy if there is a new checkpoint. Returns what became of one that has ended since."""
        outcome, self._outcome = self._outcome, None
        if outcome is None and not self.busy and time.monotonic() >= self._again:
            seen = self._checkpoints()
            if seen and seen != self._seen:
                self._begin(lambda: self._copy(seen))
        return outcome

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def finish(self) -> None:
        """Begin a last copy, once a running one has ended."""
        earlier = self._thread

        def work() -> None:
            if earlier is not None:
                earlier.join()
            self._copy(self._checkpoints())

        self._begin(work)

    def taken(self) -> SyncResult | None:
        """What became of the last copy."""
        outcome, self._outcome = self._outcome, None
        return outcome

    def fetch(self, run: Run, told: Callable[[int | None, str], None]) -> None:
        """Begin to fetch the copy; `told` gets the journal's bytes and "", or None and why it failed."""

        def work() -> None:
            problems: tuple[type[Exception], ...] = (DatabaseError, *object_storage.failures())
            try:
                told(
                    object_storage.fetch(
                        self.folder, self.storage, self.slug, lambda lines: rest(run, lines), self.ended
                    ),
                    "",
                )
            except problems as error:
                logger.warning("Run %s: its copy cannot be fetched: %s", self.slug, error)
                told(None, words(error))
            finally:
                connection.close()

        self._begin(work)

    def ended(self) -> bool:
        return self._end

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._end = True

    def _begin(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name=f"copy of {self.slug}", daemon=True)
        self._thread.start()

    def _copy(self, seen: object) -> None:
        try:
            if self._known is None:
                self._known = object_storage.read_manifest(self.storage, self.slug) or Manifest()
            self._known = object_storage.copy(self.folder, self.storage, self.slug, self._known)
        except object_storage.failures() as error:
            logger.warning("Run %s: its files cannot be copied: %s", self.slug, error)
            self._known, self._again = None, time.monotonic() + RETRY
            self._outcome = SyncResult(-1, words(error))
        else:
            self._seen = seen
            self._outcome = SyncResult(max(self._known.checkpoints, default=-1))

    def _checkpoints(self) -> tuple[tuple[str, int], ...]:
        found = []
        for state in sorted((self.folder / CHECKPOINTS_FOLDER).glob(f"*/{CHECKPOINT_STATE}")):
            try:
                found.append((state.parent.name, state.stat().st_mtime_ns))
            except FileNotFoundError:
                continue
        return tuple(found)


def words(error: Exception) -> str:
    """The first line of what a library says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def rest(run: Run, lines: int) -> Iterator[bytes]:
    """The journal's lines behind the first so many, from the frames that browsers were sent.

    They are the journal's own, without the token arrays, which the database has already: a notice stands in for those,
    and for frames that were pruned, so that every line keeps its number.
    """
    due = lines + 1
    batches = EventBatch.objects.filter(run=run, last_seq__gt=lines).order_by("last_seq")
    for frame in batches.values_list("frame", flat=True).iterator():
        for event in json.loads(frame)["events"]:
            if event["seq"] < due:
                continue
            while due < event["seq"]:
                yield _left_out(due)
                due += 1
            event.pop("slugs", None)
            if event["type"] == "trajectory_tokens":
                yield _left_out(due)
            else:
                yield (json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
            due += 1
    while due <= run.seq:
        yield _left_out(due)
        due += 1


def _left_out(number: int) -> bytes:
    said = "An event is only in the database: the worker that wrote it was lost before its journal was copied."
    notice = Notice(seq=number, time=time.time(), level="info", message=said)
    return (notice.model_dump_json(exclude_none=True) + "\n").encode()
