"""How often the run in a folder began: counted in its journal without reading what the events say."""

from __future__ import annotations

from pathlib import Path

from trainer.journal.events import FILE_NAME

_BEGINNING = b'"type":"run_started"'  # within a text of the journal its quotation marks would be escaped


def count_attempts(folder: Path) -> int:
    """Number of times the run started; 0 too where nothing is or where it failed before it could start."""
    journal = folder / FILE_NAME
    if not journal.exists():
        return 0
    with journal.open("rb") as lines:
        return sum(_BEGINNING in line for line in lines)
