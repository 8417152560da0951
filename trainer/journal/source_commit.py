"""Commit of the source code of a run."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

VARIABLE = "ECHOSCOPE_COMMIT"
"""Environment variable with the commit, for installations without a git repository, such as images."""
_ROOT = Path(__file__).parents[2]
_TIMEOUT = 5.0  # seconds


@cache
def source_commit() -> str:
    """Return the commit that this process was started from, with `+changes` if files differ; "" if it is unknown."""
    return current()


def current() -> str:
    """Return the current commit of the sources; a long-lived process may have loaded earlier ones."""
    if configured := os.environ.get(VARIABLE, "").strip():
        return configured
    return get_commit(_ROOT)


def get_commit(folder: Path) -> str:
    """Return the commit of the git repository with the folder as its root; "" without one, or without git."""
    try:
        top = _git(folder, "rev-parse", "--show-toplevel")
        if Path(top).resolve() != folder.resolve():  # installed within an unrelated repository
            return ""
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{commit}+changes" if changed else commit


def _git(folder: Path, *words: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT).stdout.strip()
