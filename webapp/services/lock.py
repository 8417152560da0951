"""Lock of a data folder, for one Echoscope at a time. It is an flock, so it never outlives its process."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from webapp.core.private_files import DataFolderError, make_private


class AlreadyRunning(RuntimeError):
    """Another process serves this data folder. The message names it and what to do."""


class Lock:
    """A lock from `take` to `release` or the end of the process. `note` records pid and address for others."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / "running.lock"
        self._note = home / "running.json"

    def take(self) -> None:
        """Take the lock and close the folder to other accounts.

        Raises:
            AlreadyRunning: another process has the lock.
            DataFolderError: the folder cannot be written.
        """
        try:
            make_private(self._home)
            self._file = self._path.open("w")
        except OSError as error:
            raise DataFolderError(self._home, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(self._description()) from None
        self.note()

    def release(self) -> None:
        """Release the lock for another process."""
        self._note.unlink(missing_ok=True)
        self._file.close()

    def note(self, **facts: Any) -> OSError | None:
        """Record the pid and `facts` of this process, for the error message of a second one and for tests.

        Returns the error if that is not possible, for example on a full disk; the site works without the note.
        """
        new = self._note.with_suffix(".new")
        try:
            new.write_text(json.dumps({"pid": os.getpid(), **facts}), encoding="utf-8")
            new.replace(self._note)
        except OSError as error:
            return error
        return None

    def _description(self) -> str:
        try:
            facts = json.loads(self._note.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            facts = {}
        pid, url = facts.get("pid", "unknown"), facts.get("url")
        where = f" at {url}" if url else ""
        return (
            f"Echoscope is already running{where} (process {pid}) with the data in {self._home}. "
            f"Use that one, or stop it with Ctrl-C in its terminal or `kill {pid}` and start again. "
            "To run a second one, give it its own folder: ECHOSCOPE_DATA_DIR=/another/folder make up."
        )
