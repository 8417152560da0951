"""A supervisor's lease of a run: renewed while the trainer lives, checked before every write, released at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import Error, close_old_connections, connection

from webapp.core.database import database_now, is_unavailable
from webapp.runs import actions
from webapp.runs.models import Run, RunQuerySet

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class LeaseLost(Exception):
    """The lease was lost: another supervisor may own the run, so none of its data may be changed."""


class RunLease:
    """Lease of a claimed run, and database access that tolerates an unavailable PostgreSQL.

    Attributes:
        run: the run as it was claimed.
        request: what users requested, as of the last `refresh`.
        worker_stopping: True while the worker shuts down, as of the last `refresh`.
    """

    def __init__(self, run: Run, *, refresh_interval: float, renew_interval: float, retry_interval: float) -> None:
        self.run = run
        self.request = Run.Request.NONE
        self.worker_stopping = False
        self._refresh_interval, self._renew_interval = refresh_interval, renew_interval
        self._retry_interval = retry_interval
        self._renewed_at = self._refreshed_at = 0.0

    def held(self) -> RunQuerySet:
        """Return the run's row while the lease is valid, and no row afterwards."""
        return Run.objects.held_by(self.run.lease).filter(pk=self.run.pk)

    def is_due(self) -> bool:
        """True if the next `refresh` is due."""
        return time.monotonic() - self._refreshed_at >= self._refresh_interval

    def refresh(self) -> None:
        """Read the requests, and renew the lease when that is due. Raises LeaseLost."""
        self._refreshed_at = time.monotonic()
        if self._refreshed_at - self._renewed_at >= self._renew_interval:
            done, run = self.attempt(lambda: actions.do_renew_lease(self.run, database_now()))
            if done:
                self._renewed_at = self._refreshed_at
        else:
            done, run = self.attempt(lambda: self.held().select_related("worker").first())
        if not done:
            return
        if run is None:
            raise LeaseLost
        self.request = Run.Request(run.requested)
        self.worker_stopping = bool(run.worker and run.worker.stopping)

    def release(self, state: Run.State, failure: str = "", log_tail: str = "") -> str:
        """Give the lease back and leave the run in `state`. Returns the outcome as text."""
        released = self.persist(lambda: actions.do_release_run(self.run, state, failure=failure, log_tail=log_tail))
        return state.label.lower() if released else "lease lost"

    def attempt(self, work: Callable[[], Result]) -> tuple[bool, Result | None]:
        """Return (True, result) of database work, or (False, None) while PostgreSQL is away: the next tick retries."""
        try:
            return True, work()
        except Error as error:
            if not is_unavailable(error):
                raise
            self._reconnect(error)
            return False, None

    def persist(self, work: Callable[[], Result]) -> Result:
        """Return the result of database work, retried for as long as PostgreSQL is away."""
        while True:
            try:
                return work()
            except Error as error:
                if not is_unavailable(error):
                    raise
                self._reconnect(error)
                time.sleep(self._retry_interval)

    def _reconnect(self, error: Exception) -> None:
        logger.warning("Run %s: the database does not answer (%s); retrying.", self.run.slug, str(error).strip())
        if not connection.in_atomic_block:
            connection.close()
        close_old_connections()
