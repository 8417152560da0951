"""Writes a verified backup each day and deletes the oldest backups."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from webapp.services.backup.archive import BackupError
from webapp.services.backup.site_backup import create_backup
from webapp.services.backup.site_restore import read_archive

NAME = re.compile(r"echoscope-\d{4}-\d\d-\d\dT\d{6}\.zip", re.ASCII)
DAMAGED = ".damaged"


def make_nightly_backup(folder: Path, home: Path, keep: int, now: datetime) -> Path:
    """Write a backup into the folder, verify it and delete all but the newest `keep`. Raises BackupError.

    Nothing is deleted unless the new backup is sound. A backup that cannot be read again is renamed.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackupError(f"{folder} cannot be created: {error.strerror}.") from None
    path = folder / f"echoscope-{now:%Y-%m-%dT%H%M%S}.zip"
    create_backup(path, home)
    try:
        read_archive(path, None)
    except BackupError:
        path.rename(path.with_name(path.name + DAMAGED))
        raise
    made = sorted(file for file in folder.iterdir() if NAME.fullmatch(file.name))
    for old in made[: -max(1, keep)]:
        old.unlink()
    return path
