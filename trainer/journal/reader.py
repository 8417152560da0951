"""Reader of journals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from trainer.journal.events import AnyEvent
from trainer.journal.protocol import JOURNAL_FILE

_EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
_RUN_STARTED = b'"type":"run_started"'  # within a text of the journal, its quotation marks would be escaped


class JournalError(ValueError):
    """A line that is not an event. The message gives the line and the problem."""


def parse_line(line: str | bytes, number: int) -> AnyEvent:
    """The event in one line. Raises JournalError, naming the line, if it is none or its seq is not `number`."""
    try:
        event = _EVENT.validate_json(line, strict=True)  # lines are stored as they are: a number in quotes stays one
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise JournalError(f"line {number} is not an event: {field + ': ' if field else ''}{first['msg']}") from None
    if event.seq != number:
        raise JournalError(f"line {number} has seq {event.seq}: lines are missing or out of order")
    return event


def read(path: Path) -> Iterator[AnyEvent]:
    """All complete lines of a journal, in order; a last line without its newline is still being written and skipped."""
    with path.open("rb") as file:
        yield from read_lines(file)


def read_lines(lines: Iterable[bytes]) -> Iterator[AnyEvent]:
    """As `read`, of an open journal."""
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return
        yield parse_line(line, number)


def count_attempts(folder: Path) -> int:
    """How often the run in the folder started, from its journal without parsing it; 0 if it never did."""
    journal = folder / JOURNAL_FILE
    if not journal.exists():
        return 0
    with journal.open("rb") as lines:
        return sum(_RUN_STARTED in line for line in lines)
