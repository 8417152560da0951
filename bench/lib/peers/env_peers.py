"""Other projects in separate virtual environments: installed if missing, driven through worker_protocol.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.lib.worker_protocol import Contender, ContenderError

GYM_SOKOBAN = ("setuptools<81", "gym==0.26.2", "gym-sokoban==0.0.6")
REQUEST_TIMEOUT = 900


class NotInstallable(Exception):
    """The peer cannot be installed on this machine. The message is the reason in one line."""


def gym_sokoban(folder: Path) -> Contender:
    """Return the process that measures gym-sokoban, in its environment in `folder`. Raises NotInstallable."""
    try:
        return Contender(environment(folder / "gym-sokoban", ("install", *GYM_SOKOBAN)), "bench.lib.workers.env_worker")
    except ContenderError as error:
        raise NotInstallable(f"does not start: {error}") from None


def environment(home: Path, *steps: tuple[str, ...]) -> Path:
    """Return the Python of a virtual environment, created and filled by these commands of pip if missing.

    Raises:
        NotInstallable: a command failed.
    """
    python, filled = home / "bin" / "python", home / "installed"
    if not filled.exists():
        run(sys.executable, "-m", "venv", str(home))
        for command, *arguments in steps:
            run(str(python), "-m", "pip", command, "--quiet", *arguments)
        filled.touch()
    return python.absolute()


def clean_environment() -> dict[str, str]:
    """Return environment variables without those that expose this project's packages to the peer's Python."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }


def run(*command: str) -> str:
    """Return the output of a command. Raises NotInstallable with its last error line."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=REQUEST_TIMEOUT, env=clean_environment())
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"not installable: it took longer than {REQUEST_TIMEOUT} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or [f"exit code {done.returncode}"]
        raise NotInstallable(f"not installable: {errors[-1][:200]}")
    return done.stdout
