"""The trainer's process as its supervisor handles it: started on a leash, its thoughts heard, stopped, its log read.

When to start or stop it is decided in supervisor.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from webapp.runs import leash

LIVE_FD = "ECHOSCOPE_LIVE_FD"
LONGEST_THOUGHT = 64 * 1024
TOKENS_EVERY = 0.03
TAIL_LINES = 40
TAIL_BYTES = 16 * 1024

INTERRUPTED = 75
BAD_CONFIGURATION = 2


@dataclass(frozen=True)
class Files:
    """What lies in a run's folder, besides the journal and the checkpoints."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def pid(self) -> Path:
        return self.folder / "trainer.pid"


def trainer_command(files: Files) -> list[str]:
    """How a run is trained, or trained on."""
    config, out = str(files.config), str(files.folder)
    return [sys.executable, "-m", "trainer", "train", "--config", config, "--out", out, "--resume"]


class Child:
    """A trainer in a process group of its own, with its output in the run's log."""

    def __init__(self, command: Sequence[str], files: Files, hear: Callable[[str, int, str], None]) -> None:
        self.files = files
        self._hear = hear
        self._deadline: float | None = None
        read_end, write_end = os.pipe()
        with files.log.open("ab") as log:
            self._log_start = log.tell()
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), str(files.pid), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(write_end,),
                    env={**os.environ, LIVE_FD: str(write_end), "PYTHONUNBUFFERED": "1"},
                )
            except OSError:
                os.close(read_end)
                raise
            finally:
                os.close(write_end)
        self._listener = threading.Thread(target=self._listen, args=(read_end,), name="thoughts", daemon=True)
        self._listener.start()

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
        return status

    def ask_to_stop(self, patience: float) -> None:
        """Finish the turn, write a checkpoint, go. It is killed after `patience` seconds. The first call counts."""
        if self._deadline is None and self._process.poll() is None:
            self._deadline = time.monotonic() + patience
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and everything it started, at once."""
        self._kill_group()
        self._process.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

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
            while data := source.read(LONGEST_THOUGHT):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > LONGEST_THOUGHT:
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
