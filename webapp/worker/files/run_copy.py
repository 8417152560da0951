"""Keeps a copy of a supervised run in object storage: fetched before the start, uploaded later and at the end."""

from __future__ import annotations

import logging
import time

from trainer.journal.protocol import JOURNAL_FILE
from webapp.core import ids
from webapp.runs import object_storage
from webapp.runs.run_files import RunFiles
from webapp.worker.files.checkpoint_sync import CheckpointSync, SyncResult
from webapp.worker.run_lease import RunLease

logger = logging.getLogger(__name__)

MAX_FETCHES = 5


class CopyUnavailable(Exception):
    """The valid files are elsewhere and cannot be fetched. The message is for the run's page."""


class RunCopy:
    """Keeps the run's folder and its copy in storage valid under one lease."""

    def __init__(
        self, lease: RunLease, files: RunFiles, sync: CheckpointSync, *, poll_interval: float, retry_interval: float
    ) -> None:
        self._lease, self._files, self._sync = lease, files, sync
        self._poll_interval, self._retry_interval = poll_interval, retry_interval

    def make_current(self) -> None:
        """Fetch the run's files if the valid files are elsewhere, and record that the files here are valid from now on.

        Raises:
            CopyUnavailable: the storage does not answer, or the copy is broken.
            LeaseLost: while waiting.
        """
        run = self._lease.run
        changes: dict[str, object] = {}
        if not object_storage.is_current(self._files.folder, run.copy):
            self._fetch()
            changes["journal_offset"] = run.journal_offset
        token = run.copy
        if not self._files.inside.has(object_storage.TOKEN) or not token:
            token = ids.token()
            self._files.inside.replace(object_storage.TOKEN, token.encode())
        # without a fetch, the offset is kept: an earlier supervisor may have read on since the run was claimed
        self._lease.persist(lambda: self._lease.held().update(copy=token, **changes))
        run.copy = token

    def poll(self) -> None:
        """Start an upload if there is a new checkpoint; record the result of the previous one."""
        self._record(self._sync.poll())

    def finish(self, timeout: float) -> None:
        """Upload the final state before the lease is released, for the next worker. Raises LeaseLost."""
        self._sync.finish()
        self._wait(timeout)
        timed_out = SyncResult(-1, "the final copy took too long; the next attempt retries it")
        self._record(self._sync.result() or timed_out)

    def cancel(self) -> None:
        self._sync.cancel()

    def _fetch(self) -> None:
        run = self._lease.run
        for attempt in range(1, MAX_FETCHES + 1):
            self._sync.fetch(run)
            self._wait()
            result = self._sync.fetch_result()
            if result.journal_bytes is not None:
                logger.info("Run %s: its files were fetched from storage.", run.slug)
                run.journal_offset = self._ingested_bytes(result.journal_bytes)
                return
            if attempt < MAX_FETCHES:
                time.sleep(self._retry_interval)
        raise CopyUnavailable(
            "The files of this run are on another worker, and its copy in storage cannot be fetched "
            f"({result.problem}). Nothing is lost: resume the run when the storage is available."
        )

    def _ingested_bytes(self, size: int) -> int:
        """Return the offset in the fetched journal after the last event in the database."""
        lines = end = 0
        with self._files.inside.open(JOURNAL_FILE) as file:
            while line := file.readline(object_storage.PART):
                if lines == self._lease.run.seq:
                    break
                lines, end = lines + 1, end + len(line)
        return min(end, size)

    def _wait(self, timeout: float = float("inf")) -> None:
        """Wait for the sync's thread, and renew the lease meanwhile. Raises LeaseLost."""
        deadline = time.monotonic() + timeout
        while self._sync.busy and time.monotonic() < deadline:
            if self._lease.is_due():
                self._lease.refresh()
            time.sleep(self._poll_interval)

    def _record(self, result: SyncResult | None) -> None:
        """Show the state of the copy on the run's page. After a problem, the earlier copy remains unchanged."""
        if result is None:
            return
        changes: dict[str, object] = {"storage_error": result.problem}
        if not result.problem:
            changes["kept_iteration"] = result.iteration
        self._lease.attempt(lambda: self._lease.held().update(**changes))
