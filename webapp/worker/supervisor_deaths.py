"""Takes back runs whose supervisors were killed, before their leases expire."""

from __future__ import annotations

import logging

import psutil

from webapp.core.database import database_now
from webapp.runs import actions
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard

logger = logging.getLogger(__name__)


class SupervisorDeaths:
    """The pool's processes at the last look, and processes that have ended since and may have supervised a run.

    Only processes that this worker has seen count: other supervisors of its name may belong to an earlier worker, and
    give their runs back themselves.
    """

    def __init__(self, worker_name: str) -> None:
        self._worker_name = worker_name
        self._running: set[int] = set()
        self._ended: set[int] = set()

    def do_take_back_runs(self) -> int:
        """Take back the runs of supervisors that have ended. Returns their number. The next call retries failures."""
        running = {child.pid for child in psutil.Process().children()}
        self._ended = (self._ended | self._running) - running
        self._running = running
        if not self._ended:
            return 0
        held = Run.objects.filter(worker__name=self._worker_name, state__in=Run.HELD, supervisor__in=self._ended)
        outcomes = [(run.supervisor, _do_take_back(run)) for run in held]
        self._ended = {supervisor for supervisor, taken in outcomes if not taken}
        count = sum(taken for _, taken in outcomes)
        if count:
            actions.wake_next_on_commit()
        return count


def _do_take_back(run: Run) -> bool:
    """Take back a run once its trainer has ended. Returns False if it does not end, or the row is locked."""
    try:
        parent_guard.kill_stale_trainer(RunFiles(run.folder).pid, parent_guard.ORPHAN_TIMEOUT)
    except parent_guard.StaleTrainer as error:
        logger.warning("Run %s: %s.", run.slug, error)
        return False
    return actions.do_take_back(Run.objects.held_by(run.lease), database_now())
