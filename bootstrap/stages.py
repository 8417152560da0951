"""Programs of a command side by side or in turn: their output in order, and a table of their times at the end."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

INTERVAL = 0.2  # seconds between two looks at the output


class Stages:
    """The stages of a command, each with a name, its seconds and its result."""

    def __init__(self, logs: Path) -> None:
        self._logs, self._started = logs, time.monotonic()
        self._rows: list[tuple[str, float, str]] = []

    def record(self, name: str, seconds: float, result: str = "") -> None:
        """Add a row to the table."""
        self._rows.append((name, seconds, result))

    def run(self, programs: Mapping[str, Sequence[str]], *, side_by_side: bool) -> int:
        """Run programs by their names, and show the output of each in the order given.

        Ctrl-C reaches the programs as well, so it ends all of them.

        Args:
            programs: argument lists.
            side_by_side: start all of them at once; otherwise one after the other.

        Returns:
            0, or the exit code of the last program that failed.
        """
        code = 0
        self._logs.mkdir(parents=True, exist_ok=True)
        for name in programs:
            self._log(name).write_bytes(b"")
        with ThreadPoolExecutor() as pool:
            early = programs if side_by_side else {}
            started = {name: pool.submit(self._run, name, argv) for name, argv in early.items()}
            for name, argv in programs.items():
                print(f"\n$ {name}", flush=True)
                run = started.get(name) or pool.submit(self._run, name, argv)
                with self._log(name).open(encoding="utf-8", errors="replace") as output:
                    ended = False
                    while not ended:
                        ended = bool(wait([run], INTERVAL).done)  # before reading, so that nothing is missed
                        print(output.read(), end="", flush=True)
                failed, seconds = run.result()
                self.record(name, seconds, f"exit code {failed}" if failed else "passed")
                code = failed or code
        return code

    def _run(self, name: str, argv: Sequence[str]) -> tuple[int, float]:
        started, env = time.monotonic(), {**os.environ, "PYTHONUNBUFFERED": "1"}
        with self._log(name).open("wb") as log:
            code = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env).returncode
        return code, time.monotonic() - started

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.txt"

    def show(self) -> None:
        """Print the table. Stages that run side by side add up to more than the total."""
        self.record("total", time.monotonic() - self._started)
        width = max(len(name) for name, _, _ in self._rows)
        print(f"\n{'stage':<{width}}  seconds")
        for name, seconds, result in self._rows:
            print(f"{name:<{width}}  {seconds:7.0f}  {result}".rstrip())
        print(f"Output of each stage: {self._logs}/", flush=True)
