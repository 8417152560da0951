"""Folders of runs in a backup: copied while training writes to them, and extracted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from trainer.journal.protocol import CHECKPOINTS_FOLDER, JOURNAL_FILE
from webapp.runs import object_storage
from webapp.services.backup.archive import BLOCK, ArchiveReader, ArchiveWriter, sync_folder

FOLDER = "runs"
_TAIL_BLOCK = 64 * 1024


def copy_folder(archive: ArchiveWriter, folder: Path, slug: str) -> tuple[list[int], int]:
    """Copy a run's folder. Returns the iterations of its checkpoints and the bytes of its journal.

    The journal comes last: it is only appended to, and synced to the disk before a checkpoint is complete, so its copy
    holds everything that the copied checkpoints presuppose. A checkpoint that is deleted meanwhile is left out.
    """
    vanished: set[str] = set()
    for path, (_, mtime_ns) in object_storage.listed(folder).items():
        checkpoint = _checkpoint_of(path)
        if checkpoint in vanished:
            continue
        try:
            with (folder / path).open("rb") as file:
                archive.add(f"{FOLDER}/{slug}/{path}", _blocks(file), compress=not checkpoint, mtime_ns=mtime_ns)
        except FileNotFoundError:
            if checkpoint:
                vanished.add(checkpoint)
                archive.discard(f"{FOLDER}/{slug}/{checkpoint}")
    for name in (object_storage.TOKEN, JOURNAL_FILE):
        try:
            with (folder / name).open("rb") as file:
                blocks = _complete_lines(file) if name == JOURNAL_FILE else _blocks(file)
                archive.add(f"{FOLDER}/{slug}/{name}", blocks, mtime_ns=os.fstat(file.fileno()).st_mtime_ns)
        except FileNotFoundError:
            continue
    prefix = f"{FOLDER}/{slug}/{CHECKPOINTS_FOLDER}/"
    names = {name.removeprefix(prefix).split("/")[0] for name in archive.members if name.startswith(prefix)}
    journal = archive.members.get(f"{FOLDER}/{slug}/{JOURNAL_FILE}")
    return sorted(int(name) for name in names if name.isdigit()), journal.size if journal else 0


def _checkpoint_of(path: str) -> str:
    """Folder of the checkpoint that a file belongs to, of the run itself or the one it begins with; empty without."""
    parts = path.split("/")
    if parts[0] == object_storage.INITIAL_FOLDER:
        return "/".join(parts[:4])  # the source's slug, its folder of checkpoints, an iteration
    return "/".join(parts[:2]) if parts[0] == CHECKPOINTS_FOLDER else ""


def extract(archive: ArchiveReader, target: Path) -> None:
    """Write all folders of runs to `target`, which must not exist. Raises BackupError, OSError."""
    target.mkdir(parents=True)
    for name, member in archive.manifest.members.items():
        if not name.startswith(f"{FOLDER}/"):
            continue
        path = target / name.removeprefix(f"{FOLDER}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.writelines(archive.blocks(name, member))
            file.flush()
            os.fsync(file.fileno())
        os.utime(path, ns=(member.mtime_ns, member.mtime_ns))


def move_into_place(source: Path, target: Path) -> None:
    """Move each folder of `source` to `target`, and delete `source`."""
    for folder in sorted(source.iterdir()):
        folder.rename(target / folder.name)
    source.rmdir()
    sync_folder(target)


def names_in(folder: Path) -> list[str]:
    """Names in a folder, sorted; none if it does not exist."""
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def _blocks(file: BinaryIO, end: int | None = None) -> Iterator[bytes]:
    """The file up to `end`, by default its present size: a log grows while it is read."""
    left = os.fstat(file.fileno()).st_size if end is None else end
    while left and (block := file.read(min(BLOCK, left))):
        left -= len(block)
        yield block


def _complete_lines(file: BinaryIO) -> Iterable[bytes]:
    """The file up to its last complete line."""
    end = os.fstat(file.fileno()).st_size
    while end:
        start = max(0, end - _TAIL_BLOCK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    file.seek(0)
    return _blocks(file, end)
