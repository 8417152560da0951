"""Stages of a test command: programs side by side or in turn, their output in order, a table of their times at last."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from bootstrap.background import Background


class Stages:
    """Programs with a name each, and the seconds that each of them took."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started = time.monotonic()
        self._rows: list[tuple[str, float, str]] = []

    def record(self, name: str, seconds: float, result: str = "") -> None:
        """Add a row to the table for a step that is no program."""
        self._rows.append((name, seconds, result))

    def run(self, programs: Mapping[str, Sequence[str]], *, side_by_side: bool) -> int:
        """Run programs by their names and show the output of each in the order given.

        Args:
            programs: argument lists.
            side_by_side: start all of them at once; otherwise one after the other.

        Returns:
            0, or the exit code of the last program that failed.
        """
        code = 0
        with ExitStack() as stack:
            made = {name: Background(argv, self._logs / f"{name}.txt") for name, argv in programs.items()}
            if side_by_side:
                for program in made.values():
                    stack.enter_context(program)
            for name, program in made.items():
                with nullcontext() if side_by_side else program:
                    print(f"\n$ {name}", flush=True)
                    ended = program.show()
                    self.record(name, program.seconds(), f"exit code {ended}" if ended else "passed")
                    code = ended or code
        return code

    def show(self) -> None:
        """Print the table. Stages that run side by side add up to more than the total."""
        total = ("total", time.monotonic() - self._started, "")
        width = max(len(name) for name, _, _ in [*self._rows, total])
        print(f"\n{'stage':<{width}}  seconds")
        for name, seconds, result in [*self._rows, total]:
            print(f"{name:<{width}}  {seconds:7.0f}  {result}".rstrip())
        print(f"Output of each stage: {self._logs}/", flush=True)
