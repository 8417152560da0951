"""Folders for computations: the journal's lines about an attempt, and the model of one checkpoint.

The computing process may write to its folder. It therefore gets copies: the run may be training meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from trainer.journal import disk_space
from trainer.journal.attempt_lines import lines_about
from trainer.journal.computed_tokens import nearest_checkpoint
from trainer.journal.protocol import (
    CHECKPOINT_STATE,
    JOURNAL_FILE,
    WARMED_UP_FOLDER,
    checkpoint_path,
    is_model_file,
)
from trainer.memory.available import available_memory
from webapp.ingest.limits import MAX_LINE_BYTES
from webapp.runs import object_storage, run_files
from webapp.runs.inputs import run_models
from webapp.runs.models import Run
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.worker.computations.branch_lines import BranchLines
from webapp.worker.computations.job_ends import ComputationFailed
from webapp.worker.files.checkpoint_sync import first_line
from webapp.worker.files.model_input import share_blocks

MAX_JOURNAL = 256 << 20
"""Bytes of the journal's lines about one attempt."""
MEMORY_FACTOR = 1.2
"""Memory of the process, relative to the files of the weights."""
UNREADABLE = "The journal of this run cannot be read: a line is not an event."
SPARE_MEMORY, SPARE_DISK = 1_000_000_000, 500_000_000
GB = 1_000_000_000
KeepAlive = Callable[[], None]
"""Called between blocks of files; an exception from it cancels the work."""


@dataclass(frozen=True)
class Weights:
    """Weights of a run.

    Attributes:
        iteration: finished iterations.
        source: folder of their files in the run's folder; empty: the process finds them by their name.
        target: folder of the copy.
    """

    iteration: int
    source: str = ""
    target: str = ""


def find_weights(run: Run, wanted: int) -> Weights | None:
    """Return the nearest kept weights of a run, 0 being the initial policy; None if its files are elsewhere.

    Raises:
        ComputationFailed: no weights are kept.
    """
    kept = run_files.kept_checkpoints(run)
    if kept is None:
        return None
    if run.is_hosted:
        return Weights(0)  # nothing to load: the endpoint has them
    if wanted == 0 and wanted not in kept:
        return _initial(run)
    iteration = nearest_checkpoint(kept, wanted)
    if iteration is None:
        raise ComputationFailed("No checkpoint of this run is kept: all have been deleted.")
    return Weights(iteration, checkpoint_path(iteration), checkpoint_path(iteration))


def _initial(run: Run) -> Weights:
    """Return the policy before training: the process takes a checkpoint of iteration 0 for it."""
    model = run_models.parse(str((run.config.get("policy") or {}).get("model", "")))
    if run.warmup_steps:
        return Weights(0, WARMED_UP_FOLDER, WARMED_UP_FOLDER)
    if model is not None and model.iteration is not None:
        copied = f"{object_storage.INITIAL_FOLDER}/{model.slug}/{checkpoint_path(model.iteration)}"
        return Weights(0, copied, checkpoint_path(0))
    return Weights(0)


def prepare(run: Run, trajectory: str, weights: Weights, inside: UntrustedFolder, keep_alive: KeepAlive) -> None:
    """Fill an empty folder with what is needed to compute an attempt.

    Args:
        trajectory: id of the attempt in the journal.
    Raises:
        ComputationFailed: files are missing, disk or memory do not suffice, or the storage does not answer.
    """
    prepare_journal(run, lines_about(trajectory), inside, "", keep_alive)
    prepare_weights(run, weights, inside, keep_alive)


@contextmanager
def copying() -> Iterator[None]:
    """Turn failures of disk and storage into ComputationFailed."""
    try:
        yield
    except object_storage.failures() as error:
        reason = "the disk of the worker is full" if disk_space.is_full(error) else first_line(error)
        raise ComputationFailed(f"The run's files could not be copied: {reason}.") from error


def prepare_journal(
    run: Run,
    is_wanted: Callable[[bytes], bool],
    inside: UntrustedFolder,
    folder: str,
    keep_alive: KeepAlive,
    branch: BranchLines | None = None,
) -> None:
    """Write the wanted lines of a run's journal into a folder inside.

    Args:
        branch: what a branch puts at the end of its recorded attempt.
    Raises:
        ComputationFailed: the journal is missing, or the storage does not answer.
    """
    name = f"{folder}/{JOURNAL_FILE}" if folder else JOURNAL_FILE
    with copying():
        inside.replace(name, _excerpt(_events(run, is_wanted, keep_alive, branch)))


def prepare_weights(run: Run, weights: Weights, inside: UntrustedFolder, keep_alive: KeepAlive) -> None:
    """Copy the model of a checkpoint.

    Raises:
        ComputationFailed: files are missing, disk or memory do not suffice, or the storage does not answer.
    """
    if weights.source:
        with copying():
            _copy_weights(run, weights, inside, keep_alive)


def _copy_weights(run: Run, weights: Weights, inside: UntrustedFolder, keep_alive: KeepAlive) -> None:
    sizes = {
        path: size
        for path, size in run_files.sizes_below(run, weights.source).items()
        if _is_wanted(path.removeprefix(f"{weights.source}/"))
    }
    _require_room(sizes, inside)
    try:
        for path in sizes:
            _copy(run, path, inside, f"{weights.target}{path.removeprefix(weights.source)}", keep_alive)
    except FileNotFoundError:
        sizes = {}
    if not sizes:
        raise ComputationFailed(
            f"The checkpoint {weights.source} of this run has been deleted meanwhile. Try again: the nearest one that "
            "is kept is used then."
        )


def _is_wanted(path: str) -> bool:
    return is_model_file(path) or path == CHECKPOINT_STATE


def _require_room(sizes: dict[str, int], inside: UntrustedFolder) -> None:
    needed, free = sum(sizes.values()), disk_space.free_bytes(inside.path)
    if free < needed + SPARE_DISK:
        raise ComputationFailed(
            f"The checkpoint has {needed / GB:.1f} GB, and the worker's disk has {free / GB:.1f} GB free for its copy."
        )
    weights = sum(size for path, size in sizes.items() if path.endswith(".safetensors"))
    memory, needed_memory = available_memory(), MEMORY_FACTOR * weights + SPARE_MEMORY
    if memory and memory[0] < needed_memory:
        raise ComputationFailed(
            f"Out of memory: the model needs about {needed_memory / GB:.1f} GB, and {memory[0] / GB:.1f} GB of the "
            "worker's memory are free. Try again when fewer runs train there."
        )


def _copy(run: Run, path: str, inside: UntrustedFolder, target: str, keep_alive: KeepAlive) -> None:
    with run_files.open_file(run, path) as file, inside.create(target) as copy:
        if run_files.is_here(run) and share_blocks(file, copy):
            return
        while block := file.read(object_storage.BLOCK):
            keep_alive()
            copy.write(block)


def _excerpt(events: Iterator[dict[str, Any]]) -> bytes:
    """Return events as the lines of a journal, with new numbers."""
    lines: list[bytes] = []
    size = 0
    for number, event in enumerate(events, start=1):
        try:
            text = json.dumps(event | {"seq": number}, ensure_ascii=False, separators=(",", ":"))
            lines.append(text.encode() + b"\n")
        except (ValueError, RecursionError):
            raise ComputationFailed(UNREADABLE) from None
        size += len(lines[-1])
        if size > MAX_JOURNAL:
            raise ComputationFailed("The journal has too many lines about this attempt.")
    return b"".join(lines)


def _events(
    run: Run, is_wanted: Callable[[bytes], bool], keep_alive: KeepAlive, branch: BranchLines | None
) -> Iterator[dict[str, Any]]:
    """Yield the wanted events of the journal, of which the events of a branch replace the end."""
    blocks = run_files.journal(run)
    if blocks is None:
        raise ComputationFailed("The journal of this run is neither on the worker nor in storage.")
    for line in _lines(blocks, keep_alive):
        if is_wanted(line):
            event = _event(line)
            if branch is None or not branch.replaces(event):
                yield event
    if branch is not None:
        yield from branch.events()


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise ComputationFailed(UNREADABLE)
    return event


def _lines(blocks: Iterator[bytes], keep_alive: KeepAlive) -> Iterator[bytes]:
    """Yield complete lines; longer ones than sites read are left out."""
    rest, is_cut = b"", False
    for block in blocks:
        keep_alive()
        *lines, rest = (rest + block).split(b"\n")
        if lines and is_cut:
            lines, is_cut = lines[1:], False
        yield from lines
        if len(rest) > MAX_LINE_BYTES:
            rest, is_cut = b"", True
