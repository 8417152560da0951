"""The child process that computes tokens: `python -m trainer tokens FOLDER`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from trainer.journal.computed_tokens import MAX_BYTES, ComputedTokens
from webapp.runs.run_files import RunFiles
from webapp.worker.computations.attempt_folder import KeepAlive
from webapp.worker.computations.computation_limits import ComputationLimits
from webapp.worker.computations.computation_start import end, failure_text, start
from webapp.worker.computations.job_ends import ComputationFailed
from webapp.worker.guarded_process import GuardedProcess

RESULT_FILE = "tokens.json"
POLL_INTERVAL = 0.2

Command = Callable[[RunFiles, str, int], Sequence[str]]
"""Returns the command for a folder, an attempt and the iteration of a checkpoint."""


def token_command(files: RunFiles, trajectory: str, checkpoint: int) -> list[str]:
    """Return the command that computes the tokens of an attempt, and writes the result into the folder."""
    command = [sys.executable, "-m", "trainer", "tokens", str(files.folder), "--trajectory", trajectory]
    result = files.inside.path_to(RESULT_FILE)
    return [*command, "--checkpoint", str(checkpoint), "--device", "cpu", "--json", str(result)]


def compute(
    files: RunFiles, trajectory: str, checkpoint: int, slots: int, keep_alive: KeepAlive, command: Command
) -> ComputedTokens:
    """Run the command to its end, and return its result.

    Args:
        files: files of the folder, which `attempt_folder` has filled.
        slots: number of runs that the worker trains at the same time.
        keep_alive: called repeatedly; an exception from it ends the process.
    Raises:
        ComputationFailed: it failed, exceeded a limit, or its result is not valid.
    """
    process = start(GuardedProcess, files, command(files, trajectory, checkpoint), slots)
    limits = ComputationLimits(process)
    try:
        while (status := process.exit_status()) is None:
            keep_alive()
            limits.check()
            time.sleep(POLL_INTERVAL)
    finally:
        end(process)
    if status:
        raise ComputationFailed(failure_text(status, process.log_tail()))
    return _result(files)


def _result(files: RunFiles) -> ComputedTokens:
    """Return what the process wrote, of which nothing is trusted."""
    try:
        return ComputedTokens.model_validate_json(files.inside.read(RESULT_FILE, MAX_BYTES))
    except FileNotFoundError:
        raise ComputationFailed("The computation ended without a result that can be read.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ComputationFailed(f"The result of the computation is not valid: {where}: {first['msg']}.") from None
