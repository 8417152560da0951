"""gym-sokoban in its own virtual environment: installed if missing, run by workers/env_worker.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGES = ("setuptools<81", "gym==0.26.2", "gym-sokoban==0.0.6")
SCRIPT = Path(__file__).parents[1] / "workers" / "env_worker.py"
REQUEST_TIMEOUT = 900


class NotInstallable(Exception):
    """The peer cannot be installed on this machine. The message is the reason in one line."""


class Peer:
    """Process of gym-sokoban that measures on request."""

    def __init__(self, folder: Path) -> None:
        python = interpreter(folder)
        self.versions = versions(python)
        self._process = subprocess.Popen(
            [python, SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=clean_environment(),
        )
        if self._read() != "ready":
            raise NotInstallable(f"does not start: {self._last_output()}")

    def ask(self, measure: str, seconds: float, **arguments: Any) -> float:
        """Operations per CPU second of a measure. Raises RuntimeError with the end of its output if it fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"measure": measure, "seconds": seconds, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        if not answer:
            raise RuntimeError(f"{measure}: {self._last_output()}")
        return float(json.loads(answer)["rate"])

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=30)

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _last_output(self) -> str:
        _, errors = self._process.communicate(timeout=30)
        return (errors.strip().splitlines() or ["it ended without output"])[-1]


def clean_environment() -> dict[str, str]:
    """Environment variables without those that expose this project's packages to the peer's Python."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }


def interpreter(folder: Path) -> Path:
    """The Python of the virtual environment, created and installed if missing. Raises NotInstallable."""
    home = folder / "gym-sokoban"
    python, filled = home / "bin" / "python", home / "installed"
    if not filled.exists():
        run(sys.executable, "-m", "venv", str(home))
        run(str(python), "-m", "pip", "install", "--quiet", *PACKAGES)
        filled.touch()
    return python


def versions(python: Path) -> str:
    """Versions of the packages in one line."""
    names = [package.partition("=")[0].partition("<")[0] for package in PACKAGES]
    code = f"from importlib.metadata import version; print(' '.join(n + ' ' + version(n) for n in {names!r}))"
    return run(str(python), "-c", code).strip()


def run(*command: str) -> str:
    """Output of a command. Raises NotInstallable with its last error line."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=REQUEST_TIMEOUT, env=clean_environment())
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"not installable: it took longer than {REQUEST_TIMEOUT} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or [f"exit code {done.returncode}"]
        raise NotInstallable(f"not installable: {errors[-1][:200]}")
    return done.stdout
