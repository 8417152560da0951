"""Programs in the background of a command, each with its output in a file that is shown later."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TextIO

INTERVAL = 0.2  # seconds between two looks at the output
TERMINATION_SECONDS = 30.0


class Background:
    """A program from `with` to the end of its block. A block that fails, or Ctrl-C, terminates it."""

    def __init__(self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.argv, self.log = list(argv), log
        self._env = {**os.environ, **(env or {}), "PYTHONUNBUFFERED": "1"}

    def __enter__(self) -> Background:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self._env
            )
        self._started, self._ended = time.monotonic(), 0.0
        threading.Thread(target=self._time, daemon=True).start()
        return self

    def _time(self) -> None:
        self._process.wait()
        self._ended = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(TERMINATION_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def seconds(self) -> float:
        """Time from its start to its end, or until now while it runs."""
        return (self._ended or time.monotonic()) - self._started

    def show(self) -> int:
        """Print its output from the beginning until it ends, and return its exit code."""
        with self.log.open(encoding="utf-8", errors="replace") as output:
            while self._process.poll() is None:
                _print(output)
                time.sleep(INTERVAL)
            _print(output)
        return self._process.returncode


def _print(output: TextIO) -> None:
    sys.stdout.write(output.read())
    sys.stdout.flush()
