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
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "var" / "log" / "setup.log"
QUIET_SECONDS = 30.0
CLEAR_LINE = "\r\033[K"


class SetupError(Exception):
    """A failure that the user has to resolve. The message says what happened, what was kept, and what to do."""


@dataclass
class Line:
    """Progress line of a running step, with the last output of its program."""

    detail: str = ""


@contextmanager
def step(title: str) -> Iterator[Line]:
    """Show progress of a `with` block: the seconds on a terminal, otherwise a line every half minute."""
    line, started, ended, live = Line(), time.monotonic(), threading.Event(), sys.stdout.isatty()

    def show(mark: str, detail: str = "") -> str:
        return f"  {mark} {title}  {time.monotonic() - started:.1f} s  {detail}".rstrip()

    def tick() -> None:
        while not ended.wait(0.2 if live else QUIET_SECONDS):
            text = show("…", line.detail)
            if live:
                print(f"{CLEAR_LINE}{text[: os.get_terminal_size().columns - 1]}", end="", flush=True)
            else:
                print(text, flush=True)

    if not live:
        print(f"  … {title}", flush=True)
    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    mark = "✗"
    try:
        yield line
        mark = "✓"
    finally:
        ended.set()
        ticker.join()
        print(f"{CLEAR_LINE if live else ''}{show(mark)}", flush=True)


def run(argv: Sequence[str], line: Line, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a program with its output in LOG and the last line next to the step. Returns exit code and last lines."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    last: deque[str] = deque(maxlen=40)
    with LOG.open("a", encoding="utf-8") as file:
        print(f"\n$ {' '.join(argv)}", file=file, flush=True)
        program = subprocess.Popen(
            argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, text=True, errors="replace", env=env
        )
        assert program.stdout is not None
        for text in program.stdout:
            file.write(text)
            last.append(text.rstrip())
            line.detail = text.strip()[:80]
        return program.wait(), "\n".join(last)
