"""Checkpoint files of a run: a transformers folder plus the state to resume from, written atomically.

Random state is not stored: every seed is derived from the run's seed and the iteration (seeds.py).
"""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from trainer.diagnostics.echo_trap import is_safe_to_resume
from trainer.journal.protocol import CHECKPOINT_STATE, CHECKPOINTS_FOLDER, checkpoint_path
from trainer.learner.learner import Learner
from trainer.policy import lora_adapters

ADAPTER = "adapter"
_LEARNER = "learner.pt"
STATE_FILES = (CHECKPOINT_STATE, _LEARNER, ADAPTER)
"""Files in a checkpoint's folder besides those of the model."""


@dataclass
class Progress:
    """Progress of a run besides its weights: everything that an exact resume needs."""

    iteration: int = 0
    evaluated: int = -1
    tokens: int = 0
    seconds: float = 0.0
    echo_trap: dict[str, Any] = field(default_factory=dict)
    first_success: float | None = None
    last_success: float | None = None
    config_digest: str = ""
    rewinds: int = 0
    base: str = ""
    """Where the initial policy was loaded from, where the settings alone do not determine it."""


def path_of(run: Path, iteration: int) -> Path:
    """Folder of an iteration's checkpoint."""
    return run / checkpoint_path(iteration)


def checkpoint_iterations(run: Path) -> list[int]:
    """Iterations with a complete checkpoint, ascending."""
    return sorted(
        int(p.parent.name) for p in (run / CHECKPOINTS_FOLDER).glob(f"*/{CHECKPOINT_STATE}") if p.parent.name.isdigit()
    )


def resolve(model: str) -> str:
    """The newest checkpoint if `model` is the folder of a run, else `model` itself."""
    saved = checkpoint_iterations(Path(model))
    return str(path_of(Path(model), saved[-1])) if saved else model


def save(run: Path, learner: Learner, progress: Progress) -> Path:
    """Write the checkpoint of `progress.iteration`; it gets its name only when complete and on disk.

    If the iteration has one, its weights are the same, and only its progress is updated.
    """
    final, state = path_of(run, progress.iteration), json.dumps(asdict(progress))
    if (final / CHECKPOINT_STATE).exists():
        update_progress(run, progress)
        return final
    for leftover in final.parent.glob(".*.partial"):
        shutil.rmtree(leftover)
    partial = final.with_name(f".{final.name}.partial")
    partial.mkdir(parents=True)
    _save_model(partial, learner)
    torch.save(learner.state(), partial / _LEARNER)
    (partial / CHECKPOINT_STATE).write_text(state)
    for file in partial.rglob("*"):
        _to_disk(file)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    _to_disk(final.parent)
    return final


def _save_model(folder: Path, learner: Learner) -> None:
    """A transformers folder with adapters merged into its weights, and the adapters beside it for resuming."""
    model = learner.policy.model
    if lora_adapters.layers(model):
        model.save_pretrained(folder, state_dict=lora_adapters.merged(model))
        lora_adapters.save_adapter(model, learner.config.lora, model.name_or_path or "", folder / ADAPTER)
    else:
        model.save_pretrained(folder)
    learner.policy.tokenizer.save_pretrained(folder)


def update_progress(run: Path, progress: Progress) -> None:
    """Replace the progress in the checkpoint of its iteration, atomically."""
    final = path_of(run, progress.iteration)
    renewed = final / f".{CHECKPOINT_STATE}"
    renewed.write_text(json.dumps(asdict(progress)))
    _to_disk(renewed)
    renewed.rename(final / CHECKPOINT_STATE)
    _to_disk(final)


def _to_disk(path: Path) -> None:
    """fsync a file or a folder's entries: a rename into place must survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size(folder: Path) -> int:
    """Bytes of a checkpoint."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def last_safe(run: Path, until: float = math.inf) -> int | None:
    """The newest checkpoint, not after `until`, that was saved while the Echo Trap detector saw no warning signs.

    The oldest one if there is none, None without any checkpoint.
    """
    saved = checkpoint_iterations(run)
    for iteration in reversed(saved):
        if iteration <= until and is_safe_to_resume(load_progress(run, iteration).echo_trap):
            return iteration
    return saved[0] if saved else None


def prune(run: Path, keep: int, sound: int | None = None) -> list[int]:
    """Delete all but the newest `keep` checkpoints and the `sound` one. Returns the deleted iterations."""
    return _remove(run, [iteration for iteration in checkpoint_iterations(run)[:-keep] if iteration != sound])


def drop_after(run: Path, iteration: int) -> list[int]:
    """Delete the checkpoints after an iteration, the newest first. Returns the deleted iterations."""
    return _remove(run, [later for later in reversed(checkpoint_iterations(run)) if later > iteration])


def _remove(run: Path, iterations: list[int]) -> list[int]:
    for iteration in iterations:
        (path_of(run, iteration) / CHECKPOINT_STATE).unlink()  # first, so that half a checkpoint does not look complete
        shutil.rmtree(path_of(run, iteration))
    return iterations


def load_progress(run: Path, iteration: int) -> Progress:
    """The run's progress at a checkpoint."""
    return Progress(**json.loads((path_of(run, iteration) / CHECKPOINT_STATE).read_text()))


def load_learner(run: Path, iteration: int, learner: Learner) -> list[str]:
    """Load critic and optimiser state of a checkpoint into the learner. Returns warnings for the user."""
    state = torch.load(path_of(run, iteration) / _LEARNER, map_location=learner.device, weights_only=True)
    return learner.load_state(state)
