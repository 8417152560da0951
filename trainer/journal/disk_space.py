"""Full disks: recognised by an error's number or text, and by the free space of a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

NEARLY_FULL = 16_000_000
"""Free bytes below which an unexplained failure of a trainer is attributed to a full disk."""
_NUMBERS = frozenset({errno.ENOSPC, errno.EDQUOT})
_TEXTS = (
    "No space left on device",
    "os error 28",
    "Disk quota exceeded",
    "No usable temporary directory found",  # Python's tempfile, which tries to write a file into each
)


def says_full(text: str) -> bool:
    """True if a message or log reports a full disk or an exhausted quota."""
    return any(sign in text for sign in _TEXTS)


def is_full(error: BaseException) -> bool:
    """True if the error, or a cause of it, is due to a full disk or an exhausted quota.

    Libraries in other languages (safetensors) give the number only in their text.
    """
    current: BaseException | None = error
    while current is not None:
        if getattr(current, "errno", None) in _NUMBERS or says_full(str(current)):
            return True
        current = current.__cause__ or current.__context__
    return False


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk with the folder, or its nearest existing parent. Raises OSError."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    sizes = os.statvfs(folder)
    return sizes.f_bavail * sizes.f_frsize
