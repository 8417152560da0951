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
        """Run programs by their names, all at once or in turn, and show the output of each in the order given.

        Ctrl-C reaches the programs as well, so it ends all of them.

        Returns:
            0, or the exit code of the last program that failed.
        """
        code = 0
        self._logs.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max(1, len(programs)) if side_by_side else 1) as pool:
            logs = {name: self._logs / f"{name}.txt" for name in programs}
            for log in logs.values():
                log.write_bytes(b"")
            runs = {name: pool.submit(self._run, argv, logs[name]) for name, argv in programs.items()}
            for name, run in runs.items():
                print(f"\n$ {name}", flush=True)
                with logs[name].open(encoding="utf-8", errors="replace") as output:
                    ended = False
                    while not ended:
                        ended = bool(wait([run], INTERVAL).done)  # before reading, so that nothing is missed
                        print(output.read(), end="", flush=True)
                failed, seconds = run.result()
                self.record(name, seconds, f"exit code {failed}" if failed else "passed")
                code = failed or code
        return code

    @staticmethod
    def _run(argv: Sequence[str], log: Path) -> tuple[int, float]:
        started, env = time.monotonic(), {**os.environ, "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as output:
            code = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env).returncode
        return code, time.monotonic() - started

    def show(self) -> None:
        """Print the table. Stages that run side by side add up to more than the total."""
        self.record("total", time.monotonic() - self._started)
        width = max(len(name) for name, _, _ in self._rows)
        print(f"\n{'stage':<{width}}  seconds")
        for name, seconds, result in self._rows:
            print(f"{name:<{width}}  {seconds:7.0f}  {result}".rstrip())
        print(f"Output of each stage: {self._logs}/", flush=True)
