"""A contender in a process of its own: it waits for a command, does it, answers. Both ends of that line live here.

What is measured is the contenders' business. Standard library alone: it runs in other people's environments, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60


class ContenderError(RuntimeError):
    """A contender's process ended. The message is the end of what it said."""


class Contender:
    """The measuring end: starts `python -m MODULE JOB` and asks it one thing at a time."""

    def __init__(self, python: str | Path, module: str, job: Mapping[str, Any]) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        # Threads that spin while they wait would take the cores from the contender whose turn it is.
        environment = kept | {"OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(python), "-m", module, json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
            env=environment,
            cwd=ROOT,
        )
        self.ready = self._read()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Its answer. Raises ContenderError when it ends instead."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # why it ended is said by the answer that does not come
        return self._read()

    def close(self) -> None:
        """End the process, by force when it does not end by itself."""
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._said.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if answer:
            return dict(json.loads(answer))
        self._process.wait(timeout=PATIENCE)
        self._said.seek(0)
        said = [line.strip() for line in self._said.read().splitlines() if line.strip()]
        raise ContenderError(said[-1] if said else f"it ended without a word, exit code {self._process.returncode}")


class Line:
    """The contender's end. What libraries print goes to the standard error, so that only answers are answers."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def next(self) -> dict[str, Any]:
        """The next command. Raises SystemExit when there is none any more."""
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(0)
        return dict(json.loads(line))

    def answer(self, **values: Any) -> None:
        """What came of the command."""
        print(json.dumps(values), file=self._answers, flush=True)
