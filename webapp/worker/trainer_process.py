"""The trainer's process: start, token stream, stop and log."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.journal.events import Phase
from trainer.journal.protocol import LIVE_FD, LOG_FILE
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard

MAX_TOKEN_LINE = 64 * 1024
TOKEN_INTERVAL = 0.03
TAIL_LINES = 40
TAIL_BYTES = 16 * 1024


def trainer_command(files: RunFiles, processes: int = 1) -> list[str]:
    """Return the command that trains or resumes a run, with a learner and a rollout actor on each of several GPUs."""
    command = [sys.executable, "-m", "trainer", "train"]
    command += ["--config", str(files.config), "--out", str(files.folder), "--resume"]
    return [*command, "--processes", str(processes)] if processes > 1 else command


class TrainerProcess:
    """A trainer in a separate process group, with its output in the run's log.

    `environment` contains all its variables: it inherits none (see trainer_environment.py).
    `file_bytes` is the maximum size of its files; 0 means no limit.
    """

    def __init__(
        self,
        command: Sequence[str],
        files: RunFiles,
        on_tokens: Callable[[str, int, str], None],
        on_progress: Callable[[dict[str, Any]], None],
        *,
        environment: Mapping[str, str],
        file_bytes: int = 0,
    ) -> None:
        self.files = files
        self._on_tokens, self._on_progress = on_tokens, on_progress
        self._deadline: float | None = None
        self._tag = secrets.token_hex(8)
        shim = [sys.executable, "-I", "-S", parent_guard.__file__]
        read_end, write_end = os.pipe()
        files.pid.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.inside.append(LOG_FILE) as log:
            self._log_start = log.seek(0, os.SEEK_END)
            try:
                self._process = subprocess.Popen(
                    [*shim, str(os.getpid()), str(files.pid), str(file_bytes), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(write_end,),
                    env={
                        **environment,
                        "PYTHONUNBUFFERED": "1",
                        parent_guard.TAG: self._tag,
                        LIVE_FD: str(write_end),
                    },
                )
            except OSError:
                os.close(read_end)
                raise
            finally:
                os.close(write_end)
        self._token_thread = threading.Thread(target=self._forward, args=(read_end,), name="tokens", daemon=True)
        self._token_thread.start()

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
        """Kill the trainer and everything it started."""
        self._kill_group()
        self._process.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        parent_guard.kill_tagged(self._tag)

    def log_tail(self) -> str:
        """Return the last lines of its output."""
        try:
            with self.files.inside.open(LOG_FILE) as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - TAIL_BYTES))
                text = log.read(TAIL_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:  # the trainer removed it
            return ""
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def _forward(self, pipe: int) -> None:
        """Forward the newest partial response of each trajectory and the newest phase, once per TOKEN_INTERVAL."""
        rest = b""
        with os.fdopen(pipe, "rb", buffering=0) as source:
            while data := source.read(MAX_TOKEN_LINE):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > MAX_TOKEN_LINE:
                    rest = b""
                newest: dict[str, tuple[int, str]] = {}
                phase: dict[str, Any] | None = None
                for line in lines:
                    try:
                        message = json.loads(line)
                        if "phase" in message:
                            phase = Phase.model_validate(message["phase"]).model_dump(mode="json", exclude_none=True)
                        else:
                            newest[str(message["trajectory"])] = int(message["turn"]), str(message["text"])
                    except (ValueError, KeyError, TypeError):
                        continue  # truncated by a full pipe; the next line repeats its content
                for trajectory, (turn, text) in newest.items():
                    self._on_tokens(trajectory, turn, text)
                if phase is not None:
                    self._on_progress(phase)
                time.sleep(TOKEN_INTERVAL)
