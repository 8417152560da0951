"""Start of the processes that compute for readers: `python -m trainer …` in the sandbox of trainers, mostly offline.

They compute on the CPU: GPUs are reserved for runs. An initial policy that a run takes by its name must be installed or
cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings

from trainer.config.hosted import HostedConfig
from trainer.models import store
from webapp.runs.inputs import folders
from webapp.runs.run_files import RunFiles
from webapp.worker import failure_messages, parent_guard
from webapp.worker.computations.job_ends import ComputationFailed
from webapp.worker.guarded_process import GuardedProcess
from webapp.worker.run_limits import configured_limits
from webapp.worker.sandbox import tcp_ports, trainer_sandbox
from webapp.worker.trainer_environment import thread_limit, trainer_environment

STALE_SECONDS = 5.0

P = TypeVar("P", bound=GuardedProcess)


def start(
    kind: type[P],
    files: RunFiles,
    command: Sequence[str],
    slots: int,
    *,
    hosted: HostedConfig | None = None,
    **options: Any,
) -> P:
    """Start the command as a process of a kind.

    Args:
        files: files of the folder, the only one to which it may write.
        slots: number of runs that the worker trains at the same time.
        hosted: the endpoint that it may connect to, with the key of which it gets the variable; None: it is offline.
        options: further arguments of the kind.
    Raises:
        ComputationFailed: it cannot be started.
    """
    config = {} if hosted is None else {"hosted": hosted.model_dump(mode="json")}
    environment = trainer_environment(config) | thread_limit(max(2, slots))
    environment |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    try:
        parent_guard.kill_stale_trainer(files.pid, STALE_SECONDS)
        prefix, variables = trainer_sandbox.command_prefix(
            Path(settings.ECHOSCOPE_DATA_DIR),
            files.folder,
            environment,
            readable=[*folders.DATA.listed, *folders.MODELS.listed, store.models_folder()],
            ports=() if hosted is None else tcp_ports.of_run({}, [hosted.url], environment, single=True),
        )
        return kind(
            [*prefix, *command],
            files,
            environment=environment | variables,
            file_bytes=configured_limits().file,
            **options,
        )
    except (OSError, ValueError, parent_guard.StaleTrainer) as error:
        raise ComputationFailed(f"The computation could not be started: {error}.") from error


def end(process: GuardedProcess) -> None:
    """Kill the process if it still runs, and forget its record."""
    if process.exit_status() is None:
        process.kill()
    process.files.pid.unlink(missing_ok=True)


def failure_text(status: int, log_tail: str) -> str:
    """Return why the process failed, as a sentence for the page."""
    if status < 0:
        return (
            f"The computation was ended by {failure_messages.signal_name(status)}; perhaps the worker's memory was "
            "exhausted. Try again when fewer runs train there."
        )
    errors = [line.removeprefix("error: ") for line in log_tail.splitlines() if line.startswith("error: ")]
    if errors:
        reason = " ".join(errors)[:1000]
        return f"The computation failed: {reason.rstrip('.')}."
    last = (log_tail.strip().splitlines() or ["no message"])[-1][:500]
    return f"The computation failed with exit code {status}: {last}"
