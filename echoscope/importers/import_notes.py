"""Notes on what an import converts or leaves out, for the summary of its command."""

from __future__ import annotations

from echoscope.importers.records import ImportFailed
from echoscope.recording.harmless import NOT_REPEATED, OnceWarnings

MAX_KINDS = 1000


class ImportNotes(OnceWarnings):
    """Collects the recorder's warnings with their places instead of emitting them. A failure ends the import.

    Attributes:
        where: the record that is being written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.where = ""
        self._first: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def once(self, key: str, message: str) -> None:
        """Keep the first message of each kind, and count the others."""
        if key in self._first or len(self._first) < MAX_KINDS:
            text = message.removesuffix(NOT_REPEATED)
            self._first.setdefault(key, f"{self.where}: {text}" if self.where else text)
            self._counts[key] = self._counts.get(key, 0) + 1

    def failed(self, method: str, error: Exception) -> None:
        """Raise ImportFailed, since an import that has lost something must not produce a run."""
        raise ImportFailed(f"{self.where}: it cannot be recorded: {error}.") from error

    def lines(self) -> list[str]:
        """Return one line for each kind of warning, in the order of their first places."""
        return [
            text if self._counts[key] == 1 else f"{text} ({self._counts[key]:,} times in all)"
            for key, text in self._first.items()
        ]
