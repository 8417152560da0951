"""Identity of the data folder: two machines see the same run folders if, and only if, its identity is the same."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from webapp.core import ids

ID_FILE = "folder-id"


def identify(folder: Path) -> str:
    """Return the identity from the folder's id file, created at the first call; empty if the folder is not writable.

    Concurrent first calls, even from several machines, get the same identity.
    """
    path = folder / ID_FILE
    try:
        if not path.exists():
            token = ids.token()
            draft = folder / f"{ID_FILE}.{token}"
            draft.write_text(token, encoding="ascii")
            try:
                with contextlib.suppress(FileExistsError):
                    os.link(draft, path)  # a rename would replace the identity that another worker has just read
            finally:
                draft.unlink()
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
