"""Downloads and deletions of models, in a thread of the worker.

They are not Celery tasks because runs may take all places of a worker for hours. Requests are rows of StoredModel, so
that nothing is lost without Redis, and any worker with the same models folder may take them over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db import close_old_connections, connection, transaction
from django.db.models import F, Q, QuerySet

from webapp.core import ids
from webapp.core.database import DATABASE_UNAVAILABLE, database_now
from webapp.runs.models import StoredModel, Worker
from webapp.runs.models.model_store_models import DOWNLOAD_SILENCE
from webapp.worker.downloads import models_folder
from webapp.worker.downloads.fetch_process import FetchProcess, FetchReport, fetch_command
from webapp.worker.parent_guard import StaleTrainer

logger = logging.getLogger(__name__)

CLAIM_LOCK = 0x0EC4_05C1
"""Key of the advisory lock that serialises claims of downloads."""
MAX_ATTEMPTS = 3
ACTIVE_SECONDS, IDLE_SECONDS = 0.5, 2.0
SYNC_SECONDS = 5.0
STOP_SECONDS = 10.0


class ModelDownloads:
    """The download thread: one download at a time in each models folder, deletions, and the installed models."""

    def __init__(
        self, worker: str, store: str, command: Callable[[str], Sequence[str]] = fetch_command, pace: float = 1.0
    ) -> None:
        """`store` identifies the models folder; `pace` is a factor of all intervals, for tests."""
        self._worker, self._store, self._command, self._pace = worker, store, command, pace
        self._fetch: FetchProcess | None = None
        self._row: StoredModel | None = None
        self._synced_at = -SYNC_SECONDS
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="model downloads", daemon=True)

    def start(self) -> None:
        """Start the thread, unless the folder cannot be written."""
        if self._store:
            self._thread.start()

    def stop(self) -> None:
        """End the thread and its download, which the folder's next worker continues."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                try:
                    self._step()
                except DATABASE_UNAVAILABLE as error:
                    logger.warning("Model downloads: the database does not answer (%s).", str(error).strip())
                    connection.close()
                except Exception:  # one failed round must not end all later ones
                    logger.exception("Model downloads: a round failed; they continue with the next one.")
                    self._end.wait(IDLE_SECONDS * self._pace)
                close_old_connections()
                self._end.wait((ACTIVE_SECONDS if self._fetch else IDLE_SECONDS) * self._pace)
            self._give_back()
        finally:
            connection.close()

    def _step(self) -> None:
        if time.monotonic() - self._synced_at >= SYNC_SECONDS * self._pace:
            self._synced_at = time.monotonic()
            models_folder.do_sync(self._store)
        if self._fetch is not None:
            self._supervise(self._fetch)
        requested = StoredModel.objects.filter(store=self._store, state__in=StoredModel.REQUESTED)
        if not requested.exists():
            return  # usually: a look costs a tenth of the steps below
        models_folder.do_delete_requested(self._store)
        if self._fetch is None:
            self._begin()

    def _begin(self) -> None:
        """Start the next download, if there is one."""
        worker = Worker.objects.filter(name=self._worker).first()
        row = do_claim_download(self._store, worker, database_now()) if worker else None
        if row is None:
            return
        try:
            self._row, self._fetch = row, FetchProcess(self._command(row.name))
        except (OSError, ValueError, StaleTrainer) as error:
            self._row = None
            _held(row).update(
                state=StoredModel.State.FAILED, lease="", error=f"The download could not be started: {error}."
            )

    def _supervise(self, fetch: FetchProcess) -> None:
        """Record the progress and the end of the download. It is ended if its row was taken away."""
        assert self._row is not None
        row, status = self._row, fetch.poll()
        if status is None:
            if not _report(row, fetch.report, database_now()):
                fetch.kill()
                self._fetch = self._row = None
            return
        if status == 0:
            models_folder.do_finish_download(row)
        elif _held(row).update(state=StoredModel.State.FAILED, lease="", error=fetch.failure(status)):
            logger.warning("The download of %s failed: %s", row.name, fetch.failure(status))
        self._fetch = self._row = None

    def _give_back(self) -> None:
        """Kill the download of a stopping worker, and queue it again."""
        if self._fetch is None or self._row is None:
            return
        self._fetch.kill()
        try:
            _held(self._row).update(state=StoredModel.State.QUEUED, lease="", worker=None, attempts=F("attempts") - 1)
        except DATABASE_UNAVAILABLE:
            pass  # it counts as dead soon


@transaction.atomic
def do_claim_download(store: str, worker: Worker | None, now: datetime) -> StoredModel | None:
    """Claim the oldest queued or dead download of a store. Returns None if there is none or another one runs."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIM_LOCK])
    rows = StoredModel.objects.filter(store=store)
    alive = Q(state=StoredModel.State.DOWNLOADING, seen_at__gte=now - DOWNLOAD_SILENCE)
    if rows.filter(alive).exists():
        return None
    waiting = rows.filter(state__in=StoredModel.PENDING).exclude(alive).order_by("requested_at", "pk")
    for row in waiting.select_for_update():
        if row.attempts >= MAX_ATTEMPTS:
            row.state, row.lease = StoredModel.State.FAILED, ""
            row.error = (
                f"The worker was lost {MAX_ATTEMPTS} times during this download; perhaps its memory was exhausted. "
                "Start the download again to continue it."
            )
            row.save()
            continue
        row.state, row.lease, row.worker = StoredModel.State.DOWNLOADING, ids.token(), worker
        row.seen_at, row.attempts, row.error = now, row.attempts + 1, ""
        row.save()
        return row
    return None


def _held(row: StoredModel) -> QuerySet[StoredModel]:
    return StoredModel.objects.filter(pk=row.pk, lease=row.lease, state=StoredModel.State.DOWNLOADING)


def _report(row: StoredModel, report: FetchReport, now: datetime) -> bool:
    """Record progress. False if the download was cancelled, or taken over by another worker."""
    changes: dict[str, Any] = {"seen_at": now}
    if report.stage:
        changes |= {"stage": report.stage, "done_bytes": report.done, "total_bytes": report.total}
    return bool(_held(row).update(**changes))
