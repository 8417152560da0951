"""Progress lines of slow steps: title, duration, result."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

QUIET_SECONDS = 30.0


class SetupError(Exception):
    """A failure that the user has to resolve. The message says what happened, what was kept, and what to do."""


class Step:
    """Progress line of a step: counts the seconds on a terminal, else prints a line every half minute."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        mark = "✓" if error is None else "✗"
        lead = "\r\033[K" if self._live else ""
        print(f"{lead}  {mark} {self.title}  {self._seconds()}", flush=True)

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started:.1f} s"

    def _tick(self) -> None:
        while not self._ended.wait(0.2 if self._live else QUIET_SECONDS):
            line = f"  … {self.title}  {self._seconds()}{'  ' + self.detail if self.detail else ''}"
            if self._live:
                width = os.get_terminal_size().columns
                print(f"\r\033[K{line[: width - 1]}", end="", flush=True)
            else:
                print(line, flush=True)


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Context manager that prints the progress and the duration of its block."""
    with Step(title) as line:
        yield line


def run(
    argv: Sequence[str], log: Path, line: Step, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> tuple[int, str]:
    """Run a program with its output in `log` and the last line beside the step. Returns exit code and last lines."""
    log.parent.mkdir(parents=True, exist_ok=True)
    last: deque[str] = deque(maxlen=40)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\n$ {' '.join(argv)}\n")
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
