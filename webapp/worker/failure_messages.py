"""Messages on a run's page about the end of its trainer."""

from __future__ import annotations

import signal
from pathlib import Path

from django.conf import settings

from trainer.journal import disk_space
from trainer.journal.protocol import DISK_FULL
from webapp.runs.models import Run
from webapp.worker.run_limits import ExceededLimit

INTERNAL_ERROR = (
    "Internal worker error; see the worker log. The run's checkpoints are kept: resume continues from the newest."
)


def crash(run: Run, status: int, log_tail: str = "") -> str:
    """Return the message for a trainer that ended with an error or was killed too often."""
    if status < 0:
        return (
            f"The trainer was killed by {signal_name(status)} {run.crashes + 1} times without finishing an iteration "
            f"(out of memory is the usual reason). {_checkpoint(run)}"
        )
    if "[Errno 27]" in log_tail or "File too large" in log_tail:
        return (
            "The trainer wrote a file larger than the operator of this site allows (ECHOSCOPE_RUN_FILE_GB). "
            f"{_checkpoint(run)}"
        )
    return f"The trainer failed (exit code {status}); see the end of its log. {_checkpoint(run)}"


def limit(run: Run, exceeded: ExceededLimit) -> str:
    """Return the message for a trainer that was ended because it exceeded the operator's limit."""
    return f"{exceeded.message} {_checkpoint(run)}"


def full_disk(folder: Path, status: int, log_tail: str) -> str:
    """Return the message for a trainer that failed because its disk is full; empty if that is not the reason.

    A trainer that noticed the full disk exits with a special status. For other trainers the log tells, or the free
    space if nothing could be written to the log.
    """
    free = disk_space.free_bytes(folder)
    unexplained = "Traceback" not in log_tail and "error: " not in log_tail
    if status == DISK_FULL or disk_space.says_full(log_tail) or (unexplained and free < disk_space.NEARLY_FULL):
        return no_space_left(folder)
    return ""


def no_space_left(folder: Path) -> str:
    """Return the message for a full disk."""
    free = disk_space.free_bytes(folder)
    return (
        f"No space left on the disk of {folder} ({free / 1e6:.0f} MB free): free some and press Resume. "
        "Everything up to the last complete checkpoint is kept."
    )


def invalid_configuration(log_tail: str) -> str:
    """Return the message for a configuration that the trainer rejected, from the errors in its log."""
    errors = [line.removeprefix("error: ") for line in log_tail.splitlines() if line.startswith("error: ")]
    reason = "; ".join(errors) or "see the end of the log"
    return f"This configuration cannot be trained: {reason}. Clone the run and change it."


def cannot_start(error: Exception) -> str:
    """Return the message for a trainer process that could not be started."""
    if disk_space.is_full(error):
        return no_space_left(Path(getattr(error, "filename", None) or settings.ECHOSCOPE_DATA_DIR))
    return f"The run could not be started: {error}. Its checkpoints are kept: fix the problem, then resume the run."


def end_not_read(run: Run) -> str:
    """Return the message for a trainer that completed while the end of its journal could not be read."""
    reason = run.journal_error or "it ends without a closing event, as if its last lines had been removed"
    return f"Training ended without an error, but its journal was not read to the end: {reason}"


def signal_name(status: int) -> str:
    """Return the name of the signal in a negative exit status."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _checkpoint(run: Run) -> str:
    newest = run.checkpoints.order_by("-iteration").first()
    if newest is None:
        return "There is no checkpoint yet: resume starts from the beginning."
    return f"The checkpoint of iteration {newest.iteration} is kept: resume continues at {newest.iteration + 1}."
