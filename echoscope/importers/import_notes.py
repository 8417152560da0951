"""What an import converts or leaves out, for the summary of its command."""

from __future__ import annotations

from echoscope.importers.records import ImportFailed
from echoscope.recording.harmless import NOT_REPEATED, OnceWarnings

MAX_KINDS = 1000


class ImportNotes(OnceWarnings):
    """Warnings of the recorder, kept with their places instead of emitted. A failure ends the import.

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
        """Raise ImportFailed: an import that has lost something has no run."""
        raise ImportFailed(f"{self.where}: it cannot be recorded: {error}.") from error

    def lines(self) -> list[str]:
        """One line for each kind, in the order of their first places."""
        return [
            text if self._counts[key] == 1 else f"{text} ({self._counts[key]:,} times in all)"
            for key, text in self._first.items()
        ]
