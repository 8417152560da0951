"""The trainer's process: start, token stream, stop and log."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.journal.events import Phase
from trainer.journal.protocol import LIVE_FD
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard

LAUNCHER_FAILED = 1
_EXIT_CODE = re.compile(r"exitcode\s*:\s*(-?\d+)")
"""Line of torchrun's output for each failed process; the first to fail is printed last."""
MAX_TOKEN_LINE = 64 * 1024
TOKEN_INTERVAL = 0.03
TAIL_LINES = 40
TAIL_BYTES = 16 * 1024


def trainer_command(files: RunFiles, processes: int = 1) -> list[str]:
    """The command that trains or resumes a run, with torchrun for several processes."""
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    config, out = str(files.config), str(files.folder)
    start = [sys.executable, "-m", *(torchrun if processes > 1 else []), "trainer"]
    return [*start, "train", "--config", config, "--out", out, "--resume"]


class TrainerProcess:
    """A trainer in its own process group, with its output in the run's log.

    With `processes` above one it is a launcher, and the trainers are its children, each in its own session.
    `environment` holds all its variables: it inherits none (see trainer_environment.py).
    `file_bytes` is the maximum size of its files; 0: no limit.
    """

    def __init__(
        self,
        command: Sequence[str],
        files: RunFiles,
        on_tokens: Callable[[str, int, str], None],
        on_progress: Callable[[dict[str, Any]], None],
        *,
        processes: int = 1,
        environment: Mapping[str, str],
        file_bytes: int = 0,
    ) -> None:
        self.files, self.processes = files, processes
        self._on_tokens, self._on_progress = on_tokens, on_progress
        self._deadline: float | None = None
        self._signalled: set[int] = set()
        self._tag = secrets.token_hex(8)
        shim = [sys.executable, "-I", "-S", parent_guard.__file__]
        read_end, write_end = self._pipe()
        with files.log.open("ab") as log:
            self._log_start = log.tell()
            try:
                self._process = subprocess.Popen(
                    [*shim, str(os.getpid()), str(files.pid), str(file_bytes), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(write_end,) if processes == 1 else (),
                    env={
                        **environment,
                        "PYTHONUNBUFFERED": "1",
                        parent_guard.TAG: self._tag,
                        LIVE_FD: str(write_end) if processes == 1 else str(files.token_pipe),
                    },
                )
            except OSError:
                os.close(read_end)
                os.close(write_end)
                raise
        self._write_end: int | None = write_end
        if processes == 1:
            self._close_write_end()
        self._token_thread = threading.Thread(target=self._forward, args=(read_end,), name="tokens", daemon=True)
        self._token_thread.start()

    def _pipe(self) -> tuple[int, int]:
        """The token pipe. A launcher passes no open files on, so its trainers open a named pipe."""
        if self.processes == 1:
            return os.pipe()
        self.files.token_pipe.unlink(missing_ok=True)
        os.mkfifo(self.files.token_pipe, 0o600)
        read_end = os.open(self.files.token_pipe, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(read_end, True)
        return read_end, os.open(self.files.token_pipe, os.O_WRONLY)

    def _close_write_end(self) -> None:
        if self._write_end is not None:
            os.close(self._write_end)
            self._write_end = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def tag(self) -> str:
        """Value of parent_guard.TAG in the environment of all its processes."""
        return self._tag

    def exit_status(self) -> int | None:
        """Exit status (negative: killed by that signal), None while it runs. Kills the rest of its process group."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.kill()
        status = self._process.poll()
        if status is not None:
            self._kill_group()
            if self.processes > 1 and status == LAUNCHER_FAILED:
                codes = _EXIT_CODE.findall(self.log_tail())
                return int(codes[-1]) if codes else status
        return status

    def stop(self, timeout: float) -> None:
        """Send SIGTERM: finish the turn, write a checkpoint, exit. Killed `timeout` seconds after the first call.

        Of several trainers each one is signalled once, because their launcher would allow them only 30 seconds. Call
        it again until they have ended, for some may not have been started yet.
        """
        if self._process.poll() is not None:
            return
        first = self._deadline is None
        if self._deadline is None:
            self._deadline = time.monotonic() + timeout
        if self.processes == 1:
            if first:
                self._process.send_signal(signal.SIGTERM)
            return
        for pid in parent_guard.children(self._process.pid):
            if pid not in self._signalled:
                self._signalled.add(pid)
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass

    def kill(self) -> None:
        """Kill it and everything it started."""
        self._kill_group()
        self._process.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        parent_guard.kill_tagged(self._tag)
        self._close_write_end()

    def log_tail(self) -> str:
        """The last lines of its output."""
        with self.files.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - TAIL_BYTES))
            text = log.read().decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def _forward(self, pipe: int) -> None:
        """Forward the newest partial response of each trajectory and the newest phase, every TOKEN_INTERVAL at most."""
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
