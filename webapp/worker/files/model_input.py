"""The checkpoint of another run that a run begins with: copied into its own folder before the trainer starts.

The copy lasts as long as the run: its source may be trained on, and keeps only its newest checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from trainer.journal.protocol import CHECKPOINT_STATE, checkpoint_path
from trainer.journal.writer import sync_to_disk
from webapp.runs import object_storage
from webapp.runs.inputs.run_models import RunModel
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles

KEEP_ALIVE_INTERVAL = 0.2


class ModelUnavailable(Exception):
    """The checkpoint cannot be read here. The message is for the run's page."""


class _Cancelled(Exception):
    """The work was cancelled between two files."""


def provide(source: Run | None, model: RunModel, files: RunFiles, keep_alive: Callable[[], None]) -> Path:
    """The folder of the checkpoint, below the run's own.

    Files on the same disk are linked: those of a checkpoint are replaced, never changed. A copy that is damaged is
    replaced.

    Args:
        source: the run that the model names; None if it was deleted.
        model: a checkpoint, with its iteration.
        files: of the run that begins with it.
        keep_alive: called every KEEP_ALIVE_INTERVAL seconds meanwhile; what it raises cancels the work.
    Raises:
        ModelUnavailable: it is not on this machine and not in storage, damaged, or the storage does not answer.
    """
    if model.iteration is None:
        raise ModelUnavailable(f"{model} names no iteration, so that it may be another model at each start")
    target = files.folder / object_storage.INITIAL_FOLDER / model.slug / checkpoint_path(model.iteration)
    return _Provision(source, model.iteration, str(model), target).run(keep_alive)


class _Provision:
    """Work of one call of `provide`, in a thread of its own: a storage may need minutes for a single read."""

    def __init__(self, source: Run | None, iteration: int, name: str, target: Path) -> None:
        self._source, self._iteration, self._name, self._target = source, iteration, name, target
        self._error: Exception | None = None
        self._cancelled = self._done = False

    def run(self, keep_alive: Callable[[], None]) -> Path:
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
        return self._target

    def _work(self) -> None:
        expected: tuple[type[Exception], ...] = (ModelUnavailable, _Cancelled, *object_storage.failures())
        try:
            if not (self._target / CHECKPOINT_STATE).exists() or _changed_files(self._target):
                self._replace()
            self._done = True
        except expected as error:
            self._error = error  # raised again in the thread that waits

    def _replace(self) -> None:
        """Put a sound copy in the place of the target. Raises ModelUnavailable, _Cancelled and those of the storage."""
        damaged: list[str] = []
        for leftover in self._target.parent.glob(f"{self._target.name}.*.new"):
            shutil.rmtree(leftover, ignore_errors=True)
        for way in (self._link, self._fetch):
            partial = self._target.with_name(f"{self._target.name}.{secrets.token_hex(4)}.new")  # not left by another
            partial.mkdir(parents=True)
            try:
                found = self._source is not None and way(self._source, partial)
                damaged = _changed_files(partial) if found else damaged
                if found and not damaged:
                    self._move(partial)
                    return
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        if damaged or self._target.exists():
            raise ModelUnavailable(
                f"the checkpoint of {self._name} is damaged: its files have changed since they were written. Launch "
                "this run again with another one"
            )
        raise ModelUnavailable(
            f"the checkpoint of {self._name} is neither on this machine nor in storage. Its run may keep only newer "
            "ones by now: launch this run again with one of them"
        )

    def _move(self, partial: Path) -> None:
        """Move the copy into place once it would survive a power cut."""
        for place in [*partial.rglob("*"), partial]:
            sync_to_disk(place)
        self._check_cancelled()
        shutil.rmtree(self._target, ignore_errors=True)
        partial.rename(self._target)
        sync_to_disk(self._target.parent)

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise _Cancelled

    def _link(self, source: Run, target: Path) -> bool:
        """Link or copy the files from the source's folder. False if the checkpoint is not there."""
        folder = source.folder / checkpoint_path(self._iteration)
        if not object_storage.is_current(source.folder, source.copy) or not (folder / CHECKPOINT_STATE).exists():
            return False
        for file in sorted(folder.rglob("*")):
            self._check_cancelled()
            if file.is_dir():
                continue
            place = target / file.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, place)
            except OSError:  # another disk, or one without links
                shutil.copyfile(file, place)
        return (target / CHECKPOINT_STATE).exists()

    def _fetch(self, source: Run, target: Path) -> bool:
        """Download the files from the source's copy. False without that checkpoint in storage."""
        storage = object_storage.configured_storage()
        manifest = object_storage.read_manifest(storage, source.slug) if storage is not None else None
        if storage is None or manifest is None or self._iteration not in manifest.checkpoints:
            return False
        prefix = f"{checkpoint_path(self._iteration)}/"
        for path in manifest.files:
            if path.startswith(prefix):
                self._check_cancelled()
                place = target / path.removeprefix(prefix)
                place.parent.mkdir(parents=True, exist_ok=True)
                with storage.open(f"{source.slug}/{path}") as opened, place.open("wb") as file:
                    shutil.copyfileobj(opened, file, object_storage.BLOCK)
        return True


def _changed_files(folder: Path) -> list[str]:
    """Files of a checkpoint that differ from the SHA-256 in its state; its state if that cannot be read."""
    try:
        recorded = json.loads((folder / CHECKPOINT_STATE).read_text(encoding="utf-8"))["files"]
        return [name for name, digest in recorded.items() if _digest(folder / name) != digest]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return [CHECKPOINT_STATE]


def _digest(file: Path) -> str:
    """SHA-256 in hexadecimal; empty if the file is gone."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
