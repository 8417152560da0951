"""Read access to a run's files: in its folder if it is current, else in its copy in object storage."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trainer.journal.protocol import (
    CHECKPOINT_STATE,
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    JOURNAL_FILE,
    LOG_FILE,
    checkpoint_path,
    is_model_file,
)
from webapp.runs import object_storage
from webapp.runs.models import Run
from webapp.runs.untrusted_folder import UntrustedFolder

BLOCK = object_storage.BLOCK
LOG_TAIL_BYTES = 64 * 1024
TRAINERS_FOLDER = "trainers"
"""In the data folder: a record of the process of each trainer."""


@dataclass(frozen=True)
class RunFiles:
    """Paths of a run's files other than the journal and the checkpoints, for the trainer's command."""

    folder: Path

    @property
    def inside(self) -> UntrustedFolder:
        """Access to the files of the folder."""
        return UntrustedFolder(self.folder)

    @property
    def config(self) -> Path:
        return self.inside.path_to(CONFIG_FILE)

    @property
    def log(self) -> Path:
        return self.inside.path_to(LOG_FILE)

    @property
    def pid(self) -> Path:
        """Record of the trainer's process and host, outside of the run's folder because trainers must not write it:
        the supervisor kills the process that it names."""
        return self.folder.parents[1] / TRAINERS_FOLDER / f"{self.folder.name}.json"

    def delete(self) -> None:
        """Delete the folder of the run, and the record of its trainer."""
        self.inside.delete()
        self.pid.unlink(missing_ok=True)


def open_file(run: Run, path: str) -> IO[bytes]:
    """Open one file of the run. Raises FileNotFoundError if it is in neither place or the storage does not answer."""
    if is_here(run):
        return UntrustedFolder(run.folder).open(path)
    file = _from_copy(run, path)
    if file is None:
        raise FileNotFoundError(f"{path} of run {run.slug} is neither on this machine nor in storage")
    return file


def sizes_below(run: Run, folder: str) -> dict[str, int]:
    """Return the bytes of files below a folder of the run by path; empty if they are neither here nor in storage."""
    if is_here(run):
        return {path: facts.st_size for path, facts in UntrustedFolder(run.folder).list_files(folder).files.items()}
    manifest = _manifest(run)
    copied = manifest.files if manifest else {}
    return {path: size for path, (size, _) in copied.items() if path.startswith(f"{folder}/")}


def is_here(run: Run) -> bool:
    """Return True if the run's folder on this machine is current, as far as its copy tells."""
    return object_storage.is_current(run.folder, run.copy)


def kept_checkpoints(run: Run) -> list[int] | None:
    """Return the iterations of the complete checkpoints, ascending; None if the files are neither here nor in storage.

    Runs of another machine without a copy have no journal here.
    """
    if not is_here(run) or not UntrustedFolder(run.folder).has(JOURNAL_FILE):
        manifest = _manifest(run)
        return manifest.checkpoints if manifest and manifest.journal else None
    inside = UntrustedFolder(run.folder)
    names = [name for name in inside.folders(CHECKPOINTS_FOLDER) if name.removeprefix("-").isdecimal()]
    return sorted(int(name) for name in names if inside.has(f"{CHECKPOINTS_FOLDER}/{name}/{CHECKPOINT_STATE}"))


def log_tail(run: Run) -> str:
    """Return the last lines of the log; empty without a log, or if the folder is on another machine and has no copy."""
    try:
        with open_file(run, RunFiles(run.folder).log.name) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            data = file.read(LOG_TAIL_BYTES)
    except FileNotFoundError:
        return run.log_tail
    text = data.decode(errors="replace")
    return text if size <= LOG_TAIL_BYTES else text.partition("\n")[2]


def journal(run: Run) -> Iterator[bytes] | None:
    """Return the journal in blocks; None if it is neither here nor in storage."""
    storage = object_storage.configured_storage()
    if storage is None or object_storage.is_current(run.folder, run.copy):
        folder = UntrustedFolder(run.folder)
        return folder.blocks(JOURNAL_FILE, BLOCK) if folder.has(JOURNAL_FILE) else None
    try:
        manifest = object_storage.read_manifest(storage, run.slug)
    except object_storage.failures():
        return None
    return object_storage.journal(storage, run.slug, manifest) if manifest and manifest.journal else None


def checkpoint(run: Run, iteration: int) -> Iterator[bytes] | None:
    """Return the checkpoint's files as a tar archive in blocks; None if it is neither here nor in storage."""
    return _archive(run, iteration, checkpoint_name(run, iteration), lambda path: True)


def model(run: Run, iteration: int, extra_files: Callable[[], dict[str, bytes]] = dict) -> Iterator[bytes] | None:
    """Return the files of the model as a tar archive, without those needed to resume; see `checkpoint`.

    Args:
        extra_files: returns further files by name; called after the files of the model have been sent.
    """
    return _archive(run, iteration, model_name(run, iteration), is_model_file, extra_files)


def checkpoint_name(run: Run, iteration: int) -> str:
    """Return the folder inside a checkpoint's archive, and the archive's file name without `.tar`."""
    return f"{run.slug}-{iteration:06d}"


def model_name(run: Run, iteration: int) -> str:
    """Return the name of the archive with only the model; see `checkpoint_name`."""
    return f"{checkpoint_name(run, iteration)}-model"


def _archive(
    run: Run,
    iteration: int,
    name: str,
    wanted: Callable[[str], bool],
    extra_files: Callable[[], dict[str, bytes]] = dict,
) -> Iterator[bytes] | None:
    prefix = f"{checkpoint_path(iteration)}/"
    sizes = sizes_below(run, checkpoint_path(iteration))
    if f"{prefix}{CHECKPOINT_STATE}" not in sizes:
        return None
    files_of_archive = {path: size for path, size in sizes.items() if wanted(path.removeprefix(prefix))}
    return _tar(run, files_of_archive, prefix, name, extra_files)


def _tar(
    run: Run, sizes: dict[str, int], prefix: str, name: str, extra_files: Callable[[], dict[str, bytes]]
) -> Iterator[bytes]:
    for path, size in sizes.items():
        member = tarfile.TarInfo(f"{name}/{path.removeprefix(prefix)}")
        member.size = size
        yield member.tobuf(tarfile.PAX_FORMAT)
        seen = 0
        with open_file(run, path) as file:
            while seen < size and (block := file.read(min(BLOCK, size - seen))):
                seen += len(block)
                yield block
        if seen != size:
            raise OSError(f"{path} of run {run.slug} changed while it was read")
        yield _padding(size)
    for file_name, data in extra_files().items():
        member = tarfile.TarInfo(f"{name}/{file_name}")
        member.size = len(data)
        yield member.tobuf(tarfile.PAX_FORMAT) + data + _padding(len(data))
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def _padding(size: int) -> bytes:
    return b"\0" * (-size % tarfile.BLOCKSIZE)


def _manifest(run: Run) -> object_storage.Manifest | None:
    storage = object_storage.configured_storage()
    try:
        return None if storage is None else object_storage.read_manifest(storage, run.slug)
    except object_storage.failures():
        return None


def _from_copy(run: Run, path: str) -> IO[bytes] | None:
    storage = object_storage.configured_storage()
    try:
        return None if storage is None else object_storage.open_file(storage, run.slug, path)
    except object_storage.failures():
        return None
