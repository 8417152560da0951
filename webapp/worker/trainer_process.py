"""The trainer's process as its supervisor handles it: started on a leash, its thoughts heard, stopped, its log read.

When to start or stop it is decided in supervisor.py.
"""

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

from trainer.journal.protocol import LIVE_FD
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard

LAUNCHER_FAILED = 1
_EXIT_CODE = re.compile(r"exitcode\s*:\s*(-?\d+)")
"""What torchrun tells of each process that ended badly; of the one that did so first it tells last."""
MAX_THOUGHT_BYTES = 64 * 1024
TOKENS_EVERY = 0.03
TAIL_LINES = 40
TAIL_BYTES = 16 * 1024


def trainer_command(files: RunFiles, processes: int = 1) -> list[str]:
    """How a run is trained, or trained on: by one process, or by several of this machine together."""
    several = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    config, out = str(files.config), str(files.folder)
    start = [sys.executable, "-m", *(several if processes > 1 else []), "trainer"]
    return [*start, "train", "--config", config, "--out", out, "--resume"]


class TrainerProcess:
    """A trainer in a process group of its own, with its output in the run's log.

    `processes` above one: it is a launcher, and the trainers are its children, each in a session of its own.
    """

    def __init__(
        self,
        command: Sequence[str],
        files: RunFiles,
        hear: Callable[[str, int, str], None],
        *,
        processes: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.files, self.processes = files, processes
        self._hear = hear
        self._deadline: float | None = None
        self._told: set[int] = set()
        self._mark = secrets.token_hex(8)
        read_end, write_end = self._pipe()
        with files.log.open("ab") as log:
            self._log_start = log.tell()
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", parent_guard.__file__, str(os.getpid()), str(files.pid), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(write_end,) if processes == 1 else (),
                    env={
                        **os.environ,
                        **(environment or {}),
                        "PYTHONUNBUFFERED": "1",
                        parent_guard.MARK: self._mark,
                        LIVE_FD: str(write_end) if processes == 1 else str(files.thoughts),
                    },
                )
            except OSError:
                os.close(read_end)
                os.close(write_end)
                raise
        self._own_end: int | None = write_end
        if processes == 1:
            self._close_own_end()
        self._listener = threading.Thread(target=self._listen, args=(read_end,), name="thoughts", daemon=True)
        self._listener.start()

    def _pipe(self) -> tuple[int, int]:
        """For thoughts. A launcher hands no open files on, so its trainers find a pipe by name."""
        if self.processes == 1:
            return os.pipe()
        self.files.thoughts.unlink(missing_ok=True)
        os.mkfifo(self.files.thoughts, 0o600)
        read_end = os.open(self.files.thoughts, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(read_end, True)
        return read_end, os.open(self.files.thoughts, os.O_WRONLY)

    def _close_own_end(self) -> None:
        if self._own_end is not None:
            os.close(self._own_end)
            self._own_end = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit status (negative: killed by that signal), None while it lives. Takes its process group along."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.kill()
        status = self._process.poll()
        if status is not None:
            self._kill_group()
            if self.processes > 1 and status == LAUNCHER_FAILED:
                codes = _EXIT_CODE.findall(self.log_tail())
                return int(codes[-1]) if codes else status
        return status

    def ask_to_stop(self, patience: float) -> None:
        """Finish the turn, write a checkpoint, go. It is killed after `patience` seconds; the first call counts.

        Of several trainers each one is asked, once: their launcher would give them half a minute and no more. Call it
        again until they have ended, for some may not have been there yet.
        """
        if self._process.poll() is not None:
            return
        first = self._deadline is None
        if self._deadline is None:
            self._deadline = time.monotonic() + patience
        if self.processes == 1:
            if first:
                self._process.send_signal(signal.SIGTERM)
            return
        for pid in parent_guard.children(self._process.pid):
            if pid not in self._told:
                self._told.add(pid)
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass

    def kill(self) -> None:
        """End it and everything it started, at once."""
        self._kill_group()
        self._process.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        parent_guard.kill_tagged(self._mark)
        self._close_own_end()

    def log_tail(self) -> str:
        """The last lines it wrote."""
        with self.files.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - TAIL_BYTES))
            text = log.read().decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def _listen(self, pipe: int) -> None:
        """Pass thoughts on: of each trajectory only the newest text, and never more often than a screen shows."""
        rest = b""
        with os.fdopen(pipe, "rb", buffering=0) as source:
            while data := source.read(MAX_THOUGHT_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > MAX_THOUGHT_BYTES:
                    rest = b""
                newest = {}
                for line in lines:
                    try:
                        told = json.loads(line)
                        newest[str(told["trajectory"])] = int(told["turn"]), str(told["text"])
                    except (ValueError, KeyError, TypeError):
                        continue  # a line cut in two by a full pipe; the next one holds more of the same text
                for trajectory, (turn, text) in newest.items():
                    self._hear(trajectory, turn, text)
                time.sleep(TOKENS_EVERY)
