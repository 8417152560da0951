"""Folders of runs, copied into a backup while training writes to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer.journal.protocol import CHECKPOINTS_FOLDER, JOURNAL_FILE
from webapp.runs import object_storage
from webapp.runs.untrusted_folder import FileRefused, UntrustedFolder
from webapp.services.backup.archive import ArchiveWriter

FOLDER = "runs"


@dataclass(frozen=True)
class CopiedFolder:
    """Result of a copy.

    Attributes:
        checkpoints: iterations of the copied checkpoints.
        journal: bytes of the copied journal.
        left_out: folders of the archive that are invalid.
        refused: names in the run's folder that were not copied, because they are not plain files.
    """

    checkpoints: list[int]
    journal: int
    left_out: list[str]
    refused: list[str]


def copy_folder(archive: ArchiveWriter, folder: Path, slug: str) -> CopiedFolder:
    """Copy a run's folder.

    The journal comes last: it is only appended to, and synced to the disk before a checkpoint is complete, so its copy
    contains everything that the copied checkpoints presuppose. A checkpoint that is deleted meanwhile is left out.
    """
    sizes: dict[str, int] = {}
    deleted: set[str] = set()
    source = UntrustedFolder(folder)
    listing = source.list_files()
    refused = set(listing.refused)
    for path in [*object_storage.listed(listing.files), object_storage.TOKEN, JOURNAL_FILE]:
        checkpoint = _checkpoint_folder(path)
        if checkpoint in deleted:
            continue
        try:
            with source.open(path) as file:
                sizes[path] = archive.add_file(f"{FOLDER}/{slug}/{path}", file, compress=not checkpoint)
        except FileNotFoundError as error:
            if isinstance(error, FileRefused):
                refused.add(path)
            if checkpoint:
                deleted.add(checkpoint)
    complete = {_checkpoint_folder(path) for path in sizes} - deleted
    iterations = [path.removeprefix(f"{CHECKPOINTS_FOLDER}/") for path in complete]
    return CopiedFolder(
        sorted(int(name) for name in iterations if name.isdigit()),
        sizes.get(JOURNAL_FILE, 0),
        sorted(f"{FOLDER}/{slug}/{checkpoint}" for checkpoint in deleted),
        sorted(refused),
    )


def _checkpoint_folder(path: str) -> str:
    """Return the folder of the checkpoint (the run's or its initial one) that contains a file; empty if none does."""
    parts = path.split("/")
    if parts[0] == object_storage.INITIAL_FOLDER:
        return "/".join(parts[:4])  # the source's slug, its folder of checkpoints, an iteration
    return "/".join(parts[:2]) if parts[0] == CHECKPOINTS_FOLDER else ""
