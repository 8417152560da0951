"""Lock of a data folder: one Echoscope at a time. An flock, so it never outlives its process."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any


class AlreadyRunning(RuntimeError):
    """Another process serves this data folder. The message names it and what to do."""


class Lock:
    """Lock held from `take` to the end of the process. `note` records pid and address for other processes."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / "running.lock"
        self._note = home / "running.json"

    def take(self) -> None:
        """Take the lock. Raises AlreadyRunning if another process holds it."""
        self._home.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(self._description()) from None
        self.note()

    def note(self, **facts: Any) -> None:
        """Record the pid and `facts` of this process, for the error message of a second one and for tests."""
        new = self._note.with_suffix(".new")
        new.write_text(json.dumps({"pid": os.getpid(), **facts}), encoding="utf-8")
        new.replace(self._note)

    def _description(self) -> str:
        try:
            facts = json.loads(self._note.read_text(encoding="utf-8"))
        except FileNotFoundError:
            facts = {}
        pid, url = facts.get("pid", "unknown"), facts.get("url")
        where = f" at {url}" if url else ""
        return (
            f"Echoscope is already running{where} (process {pid}) with the data in {self._home}. "
            f"Use that one, or stop it with Ctrl-C in its terminal or `kill {pid}` and start again. "
            "To run a second one, give it its own folder: ECHOSCOPE_DATA_DIR=/another/folder make up."
        )
