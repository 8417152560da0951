"""Keeps the site's files private: readable only by the site's account."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

UMASK = 0o077
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

_A_FILE = frozenset({errno.ENOTDIR, errno.EEXIST})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class DataFolderError(RuntimeError):
    """The data folder cannot be written. The message says why and what to do."""

    def __init__(self, folder: Path, error: OSError) -> None:
        remedy = "Repair it"
        if error.errno in _READ_ONLY:
            remedy = "Make it writable for the account that runs Echoscope"
        elif error.errno in _A_FILE:
            remedy = "A file has this name, or the name of a folder above it: move that file away"
        elif error.errno in _FULL:
            remedy = "Free some space"
        super().__init__(
            f"The data folder {folder} cannot be written: {os.strerror(error.errno or 0)}. Nothing was started. "
            f"{remedy}, or put the data elsewhere: ECHOSCOPE_DATA_DIR=/another/folder."
        )


def set_umask() -> None:
    """Make new files and folders of this process and its children private to its account."""
    os.umask(UMASK)


def make_private(folder: Path) -> None:
    """Create the folder, or close an existing one to other accounts (mode 0700).

    A folder that belongs to another account or is shared on purpose (set-group-id, as in Kubernetes volumes, or sticky,
    like /tmp) remains unchanged. Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    shared = status.st_mode & (stat.S_ISGID | stat.S_ISVTX)
    if status.st_uid == os.geteuid() and not shared and status.st_mode & UMASK:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~UMASK)
