"""The trainer's log as pages show it: its end, from the run's folder or, without one, as kept when the run failed."""

from __future__ import annotations

import os

from webapp.runs import run_files
from webapp.runs.models import Run
from webapp.worker.trainer_process import Files

SHOWN_BYTES = 64 * 1024


def log_tail(run: Run) -> str:
    """The last lines; empty where nothing was written, or the folder lies on another machine and has no copy."""
    try:
        with run_files.open_file(run, Files(run.folder).log.name) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - SHOWN_BYTES))
            data = file.read()
    except FileNotFoundError:
        return run.log_tail
    text = data.decode(errors="replace")
    return text if size <= SHOWN_BYTES else text.partition("\n")[2]
