"""Copies another run's checkpoint, with which a run begins, into the run's folder before the trainer starts.

The copy is kept as long as the run: its source may be trained further, and keeps only its newest checkpoints.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from trainer.journal.protocol import CHECKPOINT_STATE, checkpoint_path
from webapp.runs import object_storage
from webapp.runs.inputs.run_models import RunModel
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.runs.untrusted_folder import UntrustedFolder

KEEP_ALIVE_INTERVAL = 0.2
FICLONE = 0x40049409  # Linux's; fcntl has it from Python 3.12 on
MAX_STATE_BYTES = 16 << 20


class ModelUnavailable(Exception):
    """The checkpoint cannot be read here. The message is for the run's page."""


class _Cancelled(Exception):
    """The work was cancelled between two files."""


def provide(source: Run | None, model: RunModel, files: RunFiles, keep_alive: Callable[[], None]) -> Path:
    """Copy the checkpoint, and return its folder below the run's folder.

    The trainer may change its copy at will. On file systems that share blocks between files (Btrfs and XFS), the copy
    takes no space. A damaged copy is replaced.

    Args:
        source: run that the model names; None if it was deleted.
        model: a checkpoint, with its iteration.
        files: files of the run that begins with the checkpoint.
        keep_alive: called every KEEP_ALIVE_INTERVAL seconds meanwhile; an exception from it cancels the work.
    Raises:
        ModelUnavailable: it is neither on this machine nor in storage, damaged, or the storage does not answer.
    """
    if model.iteration is None:
        raise ModelUnavailable(f"{model} names no iteration, so that it may be another model at each start")
    files.folder.mkdir(parents=True, exist_ok=True)
    target = f"{object_storage.INITIAL_FOLDER}/{model.slug}/{checkpoint_path(model.iteration)}"
    _Provision(source, model.iteration, str(model), files.inside, target).run(keep_alive)
    return files.inside.path_to(target)


class _Provision:
    """Work of one call of `provide`, in a separate thread: a storage may need minutes for a single read."""

    def __init__(self, source: Run | None, iteration: int, name: str, inside: UntrustedFolder, target: str) -> None:
        self._source, self._iteration, self._name = source, iteration, name
        self._inside, self._target = inside, target
        self._error: Exception | None = None
        self._cancelled = self._done = False

    def run(self, keep_alive: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._work, name=f"copy of {self._name}", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                keep_alive()
                thread.join(KEEP_ALIVE_INTERVAL)
        finally:
            self._cancelled = True
        if isinstance(self._error, object_storage.failures()):
            raise ModelUnavailable(f"the checkpoint of {self._name} cannot be read ({self._error})") from self._error
        if self._error is not None:
            raise self._error
        if not self._done:
            raise RuntimeError(f"the thread that copies {self._name} has failed")

    def _work(self) -> None:
        expected: tuple[type[Exception], ...] = (ModelUnavailable, _Cancelled, *object_storage.failures())
        try:
            if _changed_files(self._inside, self._target):
                self._replace()
            self._done = True
        except expected as error:
            self._error = error  # raised again in the thread that waits

    def _replace(self) -> None:
        """Replace the target with a sound copy. Raises ModelUnavailable, _Cancelled and the storage's errors."""
        damaged: list[str] = []
        parent, _, iteration = self._target.rpartition("/")
        for leftover in self._inside.folders(parent):
            if leftover.startswith(f"{iteration}.") and leftover.endswith(".new"):
                self._inside.remove(f"{parent}/{leftover}")
        for way in (self._copy, self._fetch):
            partial = f"{self._target}.{secrets.token_hex(4)}.new"  # not the remains of an earlier copy
            try:
                is_copied = self._source is not None and way(self._source, partial)
                damaged = _changed_files(self._inside, partial) if is_copied else damaged
                if is_copied and not damaged:
                    self._move(partial)
                    return
            finally:
                self._inside.remove(partial)
        if damaged or iteration in self._inside.folders(parent):
            raise ModelUnavailable(
                f"the checkpoint of {self._name} is damaged: its files have changed since they were written. Launch "
                "this run again with another one"
            )
        raise ModelUnavailable(
            f"the checkpoint of {self._name} is neither on this machine nor in storage. Its run may keep only newer "
            "ones by now: launch this run again with one of them"
        )

    def _move(self, partial: str) -> None:
        """Move the copy, whose files are on disk, into place so that it survives a power cut."""
        for path, facts in self._inside.walk(partial):
            if stat.S_ISDIR(facts.st_mode):
                self._inside.sync(path)
        self._inside.sync(partial)
        self._check_cancelled()
        self._inside.remove(self._target)
        self._inside.rename(partial, self._target)
        self._inside.sync(self._target.rpartition("/")[0])

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise _Cancelled

    def _copy(self, source: Run, target: str) -> bool:
        """Copy the files from the source's folder. Returns False if the checkpoint is not there."""
        inside, checkpoint = UntrustedFolder(source.folder), checkpoint_path(self._iteration)
        if not object_storage.is_current(source.folder, source.copy):
            return False
        files = inside.list_files(checkpoint).files
        if f"{checkpoint}/{CHECKPOINT_STATE}" not in files:
            return False
        for path in files:
            with inside.open(path) as file, self._created(f"{target}{path.removeprefix(checkpoint)}") as copy:
                if not share_blocks(file, copy):
                    copy.writelines(inside.blocks(path, object_storage.BLOCK))
        return True

    def _fetch(self, source: Run, target: str) -> bool:
        """Download the files from the source's copy. Returns False if the storage lacks the checkpoint."""
        storage = object_storage.configured_storage()
        manifest = object_storage.read_manifest(storage, source.slug) if storage is not None else None
        if storage is None or manifest is None or self._iteration not in manifest.checkpoints:
            return False
        checkpoint = checkpoint_path(self._iteration)
        for path in manifest.files:
            if path.startswith(f"{checkpoint}/"):
                copied = f"{target}{path.removeprefix(checkpoint)}"
                with storage.open(f"{source.slug}/{path}") as file, self._created(copied) as copy:
                    shutil.copyfileobj(file, copy, object_storage.BLOCK)
        return True

    @contextmanager
    def _created(self, path: str) -> Iterator[IO[bytes]]:
        """Create a file of the copy, read-only afterwards and on disk at the end."""
        self._check_cancelled()
        with self._inside.create(path, 0o444) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


def share_blocks(source: IO[bytes], target: IO[bytes]) -> bool:
    """Make the target a copy that shares the source's blocks on disk. Returns False where the system cannot."""
    try:
        fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
    except OSError:  # other disks, a file system without it, or no file of the system
        return False
    return True


def _changed_files(inside: UntrustedFolder, checkpoint: str) -> list[str]:
    """Return the files of a checkpoint that differ from the SHA-256 in its state, or the state if it is unreadable."""
    try:
        recorded = json.loads(inside.read(f"{checkpoint}/{CHECKPOINT_STATE}", MAX_STATE_BYTES))["files"]
        return [name for name, digest in recorded.items() if _digest(inside, f"{checkpoint}/{name}") != digest]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return [CHECKPOINT_STATE]


def _digest(inside: UntrustedFolder, path: str) -> str:
    """Return the SHA-256 in hexadecimal; empty if the file is gone."""
    try:
        with inside.open(path) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
