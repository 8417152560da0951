"""Checkpoint files of a run: a transformers folder plus the state for resuming, written atomically.

Random state is not stored: every seed is derived from the run's seed and the iteration (seeds.py).
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainer.diagnostics.echo_trap import is_safe_to_resume
from trainer.journal.protocol import (
    ADAPTER_FOLDER,
    CHECKPOINT_STATE,
    CHECKPOINTS_FOLDER,
    LEARNER_STATE,
    WARMED_UP_FOLDER,
    checkpoint_path,
)
from trainer.journal.writer import sync_to_disk
from trainer.learner.groups.learner_group import TrainedPolicy
from trainer.policy.load import ModelError

_FILES = "files"
_UNREADABLE = (OSError, EOFError, ValueError, TypeError, AttributeError, KeyError, RuntimeError, pickle.UnpicklingError)
_DAMAGED = "damaged"


@dataclass
class Progress:
    """Progress of a run apart from its weights: everything that an exact resume needs."""

    iteration: int = 0
    """Finished iterations; negative during a warm-up on demonstrations, which ends at 0."""
    evaluated: int = -1
    tokens: int = 0
    seconds: float = 0.0
    echo_trap: dict[str, Any] = field(default_factory=dict)
    """State of the Echo Trap detector; its `faults` is the state of the detector of faults."""
    first_success: float | None = None
    last_success: float | None = None
    warmed_up_success: float | None = None
    """Success after the warm-up on demonstrations, before the first iteration of training."""
    config_digest: str = ""
    rewinds: int = 0
    checkpoint_seconds: float = 0.0
    """Time for writing the checkpoint; belongs to the metrics of the next iteration."""
    base: str = ""
    """Source of the initial policy, if the settings do not determine it."""
    skipped_updates: int = 0
    """Consecutive iterations without an update, up to the current one."""
    explained_skip: bool = False
    """Whether a notice has explained the run's first iteration without an update."""
    marginal_stds: dict[str, float] = field(default_factory=dict)
    """Moving averages by metric family, by which the z-scores of reasoning metrics are divided."""
    threads: int = 0
    """CPU threads chosen at the start (policy.threads=0) and reused by later attempts; 0 = not yet."""
    phase_seconds: dict[str, list[float]] = field(default_factory=dict)
    """Newest measured seconds of each phase, for the forecast of the remaining time."""
    changes: dict[str, str] = field(default_factory=dict)
    """Changes of settings that were requested while the run trained, as in `RunConfig.changes`."""
    answered_requests: list[str] = field(default_factory=list)
    """Identities of the requests to change settings or to rewind that were granted or refused."""
    rewinds_by_hand: dict[str, str] = field(default_factory=dict)
    """Those of the rewinds that were requested or planned, as in `RunConfig.rewinds`."""
    unreported: list[dict[str, Any]] = field(default_factory=list)
    """Events of the rewind to this checkpoint, for a journal that ends before them."""


def get_path(run: Path, iteration: int) -> Path:
    """Return the folder of an iteration's checkpoint."""
    return run / checkpoint_path(iteration)


def checkpoint_iterations(run: Path) -> list[int]:
    """Return the iterations with a complete checkpoint, ascending."""
    names = (path.parent.name for path in (run / CHECKPOINTS_FOLDER).glob(f"*/{CHECKPOINT_STATE}"))
    return sorted(int(name) for name in names if name.removeprefix("-").isdigit())


def resolve(model: str) -> str:
    """Return the newest sound checkpoint if `model` is a run's folder, otherwise `model`. Raises ModelError."""
    run = Path(model)
    newest, damaged = newest_sound(run)
    if newest is None and damaged:
        raise ModelError(f"No checkpoint in {model} can be read: {'; '.join(damaged.values())}.")
    return str(get_path(run, newest)) if newest is not None else model


def file_digests(folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, str]:
    """Return the hexadecimal SHA-256 of the wanted files of a checkpoint except its state, by relative path."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and path.name not in (CHECKPOINT_STATE, f".{CHECKPOINT_STATE}") and wanted(name):
            with path.open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def damage(run: Path, iteration: int, wanted: Callable[[str], bool] = lambda name: True) -> str:
    """Return why a checkpoint, or its wanted files, cannot be trusted, or "" if they can."""
    folder = get_path(run, iteration)
    try:
        state = _state(run, iteration)
        _parse_progress(state)
        recorded = state[_FILES]
        present = file_digests(folder, wanted)
        changed = [name for name, digest in recorded.items() if wanted(name) and present.get(name) != digest]
    except _UNREADABLE as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        return f"checkpoint {iteration} cannot be read ({type(error).__name__}: {reason})"
    if changed:
        return f"checkpoint {iteration} is damaged ({', '.join(changed)} changed after it was written)"
    return ""


def newest_sound(run: Path) -> tuple[int | None, dict[int, str]]:
    """Find the newest undamaged checkpoint, None without one, and the problem of each newer, damaged one."""
    damaged: dict[int, str] = {}
    for iteration in reversed(checkpoint_iterations(run)):
        problem = damage(run, iteration)
        if not problem:
            return iteration, damaged
        damaged[iteration] = problem
    return None, damaged


def set_aside(run: Path, iteration: int) -> Path:
    """Rename a damaged checkpoint so that it is not used, but can still be inspected. Returns its new folder."""
    folder = get_path(run, iteration)
    target = folder.with_name(f"{folder.name}.{_DAMAGED}")
    shutil.rmtree(target, ignore_errors=True)
    folder.rename(target)
    sync_to_disk(target.parent)
    return target


def save(run: Path, learners: TrainedPolicy, progress: Progress) -> Path:
    """Write the checkpoint of `progress.iteration`; it gets its name only when complete and on disk.

    If the iteration already has a checkpoint, its weights are the same, and only its progress is updated.
    """
    began, final = time.monotonic(), get_path(run, progress.iteration)
    if (final / CHECKPOINT_STATE).exists():
        update_progress(run, progress)
        return final
    for leftover in final.parent.glob(".*.partial"):
        shutil.rmtree(leftover)
    partial = final.with_name(f".{final.name}.partial")
    partial.mkdir(parents=True)
    learners.save(partial)
    digests = file_digests(partial)
    progress.checkpoint_seconds = time.monotonic() - began
    _write_state(partial / CHECKPOINT_STATE, progress, digests)
    for file in partial.rglob("*"):
        sync_to_disk(file)
    sync_to_disk(partial)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    sync_to_disk(final.parent)
    return final


def save_warmed_up(run: Path, learners: TrainedPolicy) -> None:
    """Write the policy after the warm-up on demonstrations: the start of training, and its KL reference.

    Adapters are merged into its weights, and it has no optimiser state.
    """
    final = run / WARMED_UP_FOLDER
    partial = final.with_name(f".{final.name}.partial")
    for leftover in (partial, final):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir(parents=True)
    learners.save(partial)
    (partial / LEARNER_STATE).unlink()
    shutil.rmtree(partial / ADAPTER_FOLDER, ignore_errors=True)
    for file in (*partial.rglob("*"), partial):
        sync_to_disk(file)
    partial.rename(final)
    sync_to_disk(run)


def update_progress(run: Path, progress: Progress) -> None:
    """Replace the progress in the checkpoint of its iteration, atomically."""
    final = get_path(run, progress.iteration)
    renewed = final / f".{CHECKPOINT_STATE}"
    _write_state(renewed, progress, _state(run, progress.iteration).get(_FILES, {}))
    sync_to_disk(renewed)
    renewed.rename(final / CHECKPOINT_STATE)
    sync_to_disk(final)


def size(folder: Path) -> int:
    """Return the size of a checkpoint in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def last_safe(run: Path, until: float = math.inf) -> int | None:
    """Find the newest checkpoint, not after `until`, without warning signs of the Echo Trap detector.

    If there is none, the oldest checkpoint; None without any checkpoint.
    """
    saved = [iteration for iteration in checkpoint_iterations(run) if _has_readable_state(run, iteration)]
    for iteration in reversed(saved):
        if iteration <= until and is_safe_to_resume(load_progress(run, iteration).echo_trap):
            return iteration
    return saved[0] if saved else None


def _has_readable_state(run: Path, iteration: int) -> bool:
    try:
        load_progress(run, iteration)
    except (ValueError, TypeError, OSError):
        return False
    return True


def prune(run: Path, keep: int, needed: Collection[int | None] = ()) -> list[int]:
    """Delete all but the newest `keep` checkpoints and the `needed` ones, and the checkpoints of a finished warm-up.

    Returns the deleted iterations.
    """
    saved = checkpoint_iterations(run)
    old = [iteration for iteration in saved[:-keep] if iteration not in needed]
    return _remove(run, sorted({*old, *(iteration for iteration in saved if iteration < 0 <= saved[-1])}))


def drop_superseded(run: Path) -> None:
    """Delete the checkpoints that the newest rewind left behind: those after its own that know of fewer rewinds."""
    rewinds = {
        iteration: load_progress(run, iteration).rewinds
        for iteration in checkpoint_iterations(run)
        if _has_readable_state(run, iteration)
    }
    newest = max(rewinds.values(), default=0)
    first = min((iteration for iteration, number in rewinds.items() if number == newest), default=0)
    _remove(run, [later for later in reversed(rewinds) if later > first and rewinds[later] < newest])


def _remove(run: Path, iterations: list[int]) -> list[int]:
    for iteration in iterations:
        (get_path(run, iteration) / CHECKPOINT_STATE).unlink()  # first: a partial checkpoint must not look complete
        shutil.rmtree(get_path(run, iteration))
    return iterations


def load_progress(run: Path, iteration: int) -> Progress:
    """Load the run's progress at a checkpoint."""
    return _parse_progress(_state(run, iteration))


def _parse_progress(state: dict[str, Any]) -> Progress:
    return Progress(**{name: value for name, value in state.items() if name != _FILES})


def _state(run: Path, iteration: int) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((get_path(run, iteration) / CHECKPOINT_STATE).read_text())
    return state


def _write_state(file: Path, progress: Progress, digests: dict[str, str]) -> None:
    file.write_text(json.dumps(asdict(progress) | {_FILES: digests}))


def load_learner(run: Path, iteration: int, learners: TrainedPolicy) -> list[str]:
    """Load critic and optimiser state of a checkpoint into the learners. Returns warnings for the user."""
    return learners.load(get_path(run, iteration))
