"""One line for every slow step: what is done, for how long, and how it ended. No step itself lives here."""

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
    """Something only a person can put right. The message says what happened, what was kept, and what to do."""


class Step:
    """A line that grows: on a terminal it counts the seconds, elsewhere it speaks every half minute."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.detail = ""
        self._started = time.monotonic()
        self._over = threading.Event()
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
        self._over.set()
        self._thread.join()
        mark = "✓" if error is None else "✗"
        lead = "\r\033[K" if self._live else ""
        print(f"{lead}  {mark} {self.title}  {self._seconds()}", flush=True)

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started:.1f} s"

    def _tick(self) -> None:
        while not self._over.wait(0.2 if self._live else QUIET_SECONDS):
            line = f"  … {self.title}  {self._seconds()}{'  ' + self.detail if self.detail else ''}"
            if self._live:
                width = os.get_terminal_size().columns
                print(f"\r\033[K{line[: width - 1]}", end="", flush=True)
            else:
                print(line, flush=True)


@contextmanager
def step(title: str) -> Iterator[Step]:
    """`with step("Installing …"):` prints its line and its time."""
    with Step(title) as line:
        yield line


def run(
    argv: Sequence[str], log: Path, line: Step, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> tuple[int, str]:
    """Run a program with its output in `log` and its last word beside the step. Exit code and the output's end."""
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
