"""Lines of a journal as the ingest handles them."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.journal.events import AnyEvent, Notice


@dataclass(frozen=True)
class JournalLine:
    """A complete line of the journal: its event, its text for browsers, and its bytes.

    Attributes:
        left_out: why a notice stands in its place; empty: the line itself was read.
    """

    event: AnyEvent
    text: str
    size: int
    left_out: str = ""


def leave_out(number: int, size: int, problem: str) -> JournalLine:
    """Placeholder for an invalid line."""
    event = Notice(seq=number, level="error", message=f"An event was left out: {problem}.")
    return JournalLine(event, event.model_dump_json(exclude_none=True), size, problem)
