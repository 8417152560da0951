"""Limits of a process that computes for readers of a site: time, and memory as for runs."""

from __future__ import annotations

import time

from webapp.worker import parent_guard
from webapp.worker.computations.attempt_folder import GB
from webapp.worker.computations.job_ends import ComputationFailed
from webapp.worker.guarded_process import GuardedProcess
from webapp.worker.run_limits import configured_limits, memory_bytes, process_tree

TIME_LIMIT = 900.0
"""Seconds. Large models take minutes on a CPU, most of them for loading."""
LIMIT_INTERVAL = 2.0


class ComputationLimits:
    """The limits of one computation, from its begin."""

    def __init__(self, process: GuardedProcess, seconds: float | None = None) -> None:
        """`seconds` is its maximum duration; None: TIME_LIMIT."""
        self._process = process
        self._seconds = TIME_LIMIT if seconds is None else seconds
        self._began = self._checked = time.monotonic()
        self._memory = configured_limits().memory

    def check(self) -> None:
        """Raise ComputationFailed if a limit is exceeded."""
        now = time.monotonic()
        if now - self._began > self._seconds:
            raise ComputationFailed(
                f"The computation took longer than {self._seconds / 60:.0f} minutes and was ended. Try again when the "
                "worker has less to do."
            )
        if self._memory and now - self._checked > LIMIT_INTERVAL:
            self._checked = now
            pids = sorted({*process_tree(self._process.pid), *parent_guard.tagged_processes(self._process.tag)})
            if (used := memory_bytes(pids, self._memory)) > self._memory:
                raise ComputationFailed(
                    f"Out of memory: the computation used {used / GB:.1f} GB, and the operator of this site allows "
                    f"{self._memory / GB:.1f} GB (ECHOSCOPE_RUN_MEMORY_GB)."
                )
