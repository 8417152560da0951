"""Progress lines of slow steps: title, duration, result."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "var" / "log" / "setup.log"
QUIET_SECONDS = 30.0


class SetupError(Exception):
    """A failure that the user has to resolve. The message says what happened, what was kept, and what to do."""


class Step:
    """Progress line of a `with` block: counts the seconds on a terminal, else prints a line every half minute."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.detail = ""
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._live = sys.stdout.isatty()

    def __enter__(self) -> Step:
        if not self._live:
            print(f"  … {self.title}", flush=True)
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        lead = "\r\033[K" if self._live else ""
        print(f"{lead}  {'✗' if kind else '✓'} {self.title}  {self._seconds()}", flush=True)

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started:.1f} s"

    def _tick(self) -> None:
        while not self._ended.wait(0.2 if self._live else QUIET_SECONDS):
            line = f"  … {self.title}  {self._seconds()}{'  ' + self.detail if self.detail else ''}"
            if self._live:
                print(f"\r\033[K{line[: os.get_terminal_size().columns - 1]}", end="", flush=True)
            else:
                print(line, flush=True)


step = Step


def run(
    argv: Sequence[str], line: Step, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> tuple[int, str]:
    """Run a program with its output in LOG and the last line next to the step. Returns exit code and last lines."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    last: deque[str] = deque(maxlen=40)
    with LOG.open("a", encoding="utf-8") as file:
        print(f"\n$ {' '.join(argv)}", file=file, flush=True)
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=folder,
                env={**os.environ, **(env or {})},
            )
        except FileNotFoundError as error:
            return 127, str(error)
        assert process.stdout is not None
        for text in process.stdout:
            file.write(text)
            last.append(text.rstrip())
            line.detail = text.strip()[:80]
        return process.wait(), "\n".join(last)
