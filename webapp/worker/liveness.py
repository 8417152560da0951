"""Liveness of a worker, for orchestrators: a thread touches a file, and a script judges the file's age.

`python -I -S webapp/worker/liveness.py` exits with 0 while the file that ECHOSCOPE_LIVENESS_FILE names was touched
within MAX_AGE seconds. The thread uses neither database nor Redis, which may hang instead of refusing: restarting the
worker would not bring them back, and would end its runs. Standard library only, so that a probe costs milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

VARIABLE = "ECHOSCOPE_LIVENESS_FILE"
MAX_AGE = 60.0


def touch() -> None:
    """Show that the worker is alive, if a file is configured. Needs no disk space once the file exists.

    A file that cannot be touched only becomes too old.
    """
    if path := os.environ.get(VARIABLE):
        with contextlib.suppress(OSError):
            Path(path).touch()


def problem(path: Path, max_age: float = MAX_AGE) -> str:
    """Explain why the worker that touches this file does not count as alive, or return ""."""
    try:
        age = time.time() - path.stat().st_mtime
    except OSError as error:
        return f"{VARIABLE}={path}: {error.strerror}"
    if age < -max_age:  # the clock was set back, and the worker has not touched the file since
        return f"the last heartbeat is {-age:.0f} s ahead of the clock"
    return "" if age <= max_age else f"the last heartbeat was {age:.0f} s ago"


if __name__ == "__main__":
    sys.exit(problem(Path(os.environ.get(VARIABLE) or "/nonexistent")) or 0)
