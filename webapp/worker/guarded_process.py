"""A process that a worker starts in a separate process group, and ends together with all that it started."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from trainer.journal.protocol import LOG_FILE
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard

TAIL_LINES = 40
TAIL_BYTES = 16 * 1024


class GuardedProcess:
    """A process in a separate process group, with its output in the log of its folder; it dies with the worker.

    Args:
        environment: all its variables: it inherits none (see trainer_environment.py).
        file_bytes: maximum size of its files; 0 means no limit.
        piped: whether standard input and output are pipes, so that only errors go to the log.
        pass_fds: open files that it inherits.
    """

    def __init__(
        self,
        command: Sequence[str],
        files: RunFiles,
        *,
        environment: Mapping[str, str],
        file_bytes: int = 0,
        piped: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.files = files
        self._deadline: float | None = None
        self._tag = secrets.token_hex(8)
        shim = [sys.executable, "-I", "-S", parent_guard.__file__]
        files.pid.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.inside.append(LOG_FILE) as log:
            self._log_start = log.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(
                [*shim, str(os.getpid()), str(files.pid), str(file_bytes), *command],
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=log if piped else subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
                pass_fds=pass_fds,
                env={**environment, "PYTHONUNBUFFERED": "1", parent_guard.TAG: self._tag},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def tag(self) -> str:
        """Value of parent_guard.TAG in the environment of all its processes."""
        return self._tag

    def exit_status(self) -> int | None:
        """Return the exit status (negative after a signal), or None while it runs.

        Kills the rest of its process group.
        """
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.kill()
        status = self._process.poll()
        if status is not None:
            self._kill_group()
        return status

    def stop(self, timeout: float) -> None:
        """Send SIGTERM once: finish the turn, write a checkpoint, exit. After `timeout` seconds it is killed."""
        if self._process.poll() is None and self._deadline is None:
            self._deadline = time.monotonic() + timeout
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and everything it started."""
        self._kill_group()
        self._process.wait()

    def log_tail(self) -> str:
        """Return the last lines of its output."""
        try:
            with self.files.inside.open(LOG_FILE) as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - TAIL_BYTES))
                text = log.read(TAIL_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:  # the process removed it
            return ""
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def _kill_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        parent_guard.kill_tagged(self._tag)
