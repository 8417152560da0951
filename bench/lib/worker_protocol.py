"""Line protocol between a benchmark and a contender's process: commands as JSON lines in, results out.

Standard library only: workers run in the environments of other projects, too.
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
STOP_TIMEOUT = 60


class ContenderError(RuntimeError):
    """A contender's process ended. The message is the end of its output."""


class Contender:
    """Benchmark side: starts `python -m MODULE JOB` and sends one command at a time.

    Args:
        job: sent as JSON.
        settings: further environment variables.
    """

    def __init__(
        self,
        python: str | Path,
        module: str,
        job: Mapping[str, Any] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        foreign = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if name not in foreign}
        # Spinning idle threads would take cores from the contender whose turn it is.
        environment = environment | {
            "OMP_WAIT_POLICY": "PASSIVE",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            **(settings or {}),
        }
        self._output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(python), "-m", module, json.dumps(job or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
            encoding="utf-8",
            env=environment,
            cwd=ROOT,
        )
        self.ready = self._read()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and return its result. Raises ContenderError if the process ends."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing result reports why the process ended
        return self._read()

    def close(self) -> None:
        """Stop the process, by force after a timeout."""
        try:
            self._process.communicate(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._output.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if answer:
            return dict(json.loads(answer))
        self._process.wait(timeout=STOP_TIMEOUT)
        self._output.seek(0)
        lines = [line.strip() for line in self._output.read().splitlines() if line.strip()]
        raise ContenderError(lines[-1] if lines else f"it ended without output, exit code {self._process.returncode}")


class WorkerConnection:
    """Worker side. Output of libraries is redirected to standard error, so that stdout contains only results."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def next(self) -> dict[str, Any]:
        """Return the next command. Raises SystemExit at the end of input."""
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(0)
        return dict(json.loads(line))

    def answer(self, **values: Any) -> None:
        """Send the result of the command."""
        print(json.dumps(values), file=self._answers, flush=True)
