"""Contract between trainer and site: file names, exit codes, environment variables."""

from __future__ import annotations

JOURNAL_FILE = "journal.jsonl"
"""Every event of the run. Like all files here, it is in the run's folder."""
CONFIG_FILE = "config.yaml"
"""The settings, in the format of `trainer train --config`."""
LOG_FILE = "log.txt"
"""Standard output and error of the trainer."""
WATCH_FILE = "watch.json"
"""{"trajectories": [ids]}: trajectories with streamed partial responses."""
CHANGES_FILE = "changes.json"
"""{"requests": [{"request", "by", "why", "changes", "rewind_to"}]}: requested changes, as in SettingsChanged."""
CHECKPOINTS_FOLDER = "checkpoints"
"""One folder per checkpoint, named by its iteration."""
CHECKPOINT_STATE = "state.json"
"""Within the folder of a checkpoint; written last: a checkpoint with this file is complete."""
LEARNER_STATE = "learner.pt"
"""Within the folder of a checkpoint: optimiser state, critic and master weights."""
ADAPTER_FOLDER = "adapter"
"""Within the folder of a checkpoint: LoRA adapters, which are also merged into the weights."""
WARMED_UP_FOLDER = "warmed_up"
"""The policy after the warm-up on demonstrations, the start of the run's training."""
RESUME_FILES = (CHECKPOINT_STATE, LEARNER_STATE, ADAPTER_FOLDER)
"""Files in the folder of a checkpoint in addition to the model's."""

ANY_TRAJECTORY = "*"
"""In WATCH_FILE, instead of an id: any trajectory."""
LIVE_FD = "ECHOSCOPE_LIVE_FD"
"""Environment variable with the pipe for partial responses and the progress of updates: a file descriptor, or the path
of a named pipe."""
RUN_MODEL = "run:"
"""Prefix of a `policy.model` that names a run of a site: run:SLUG@ITERATION."""
MODEL_FOLDER = "ECHOSCOPE_RUN_MODEL_FOLDER"
"""Environment variable with the checkpoint folder of such a model, set by the site's worker."""

COMPLETED = 0
FAILED = 1
BAD_CONFIGURATION = 2
"""Exit code: the settings are invalid, a retry cannot succeed."""
DISK_FULL = 74
"""Exit code: a write failed because the disk is full or a quota exhausted (EX_IOERR)."""
INTERRUPTED = 75
"""Exit code: stopped on request with a checkpoint, can be resumed (EX_TEMPFAIL)."""


def checkpoint_path(iteration: int) -> str:
    """Return the folder of that iteration's checkpoint, relative to the run's folder."""
    return f"{CHECKPOINTS_FOLDER}/{iteration:06d}"


def is_model_file(path: str) -> bool:
    """True if a file of a checkpoint belongs only to the model; `path` is relative to the checkpoint's folder."""
    top = path.split("/")[0]
    return top not in RESUME_FILES and not top.startswith(".")
