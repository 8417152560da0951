"""Reader of journals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from trainer.journal.events import AnyEvent
from trainer.journal.protocol import JOURNAL_FILE

_EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
_RUN_STARTED, _REWOUND = b'"type":"run_started"', b'"type":"rewound"'  # quotation marks within texts are escaped


class JournalError(ValueError):
    """A line is not an event. The message gives the line and the problem."""


class UnknownEventError(JournalError):
    """An event of a type that this version does not know, as a newer trainer writes it."""


def parse_line(line: str | bytes, number: int) -> AnyEvent:
    """Parse the event in one line.

    Raises:
        UnknownEventError: its type is not known.
        JournalError: it is not an event, or its seq is not `number`.
    """
    try:
        event = _EVENT.validate_json(line, strict=True)  # lines are stored verbatim: a quoted number would stay a text
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "union_tag_invalid" and first["input"].get("seq") == number:
            kind = str(first["ctx"]["tag"])[:40]
            raise UnknownEventError(f"line {number} is of the type {kind}, which this version does not know") from None
        field = ".".join(str(part) for part in first["loc"])
        raise JournalError(f"line {number} is not an event: {field + ': ' if field else ''}{first['msg']}") from None
    if event.seq != number:
        raise JournalError(f"line {number} has seq {event.seq}: lines are missing or out of order")
    return event


def as_event(data: object) -> AnyEvent:
    """Return the event from its data. Raises ValidationError."""
    return _EVENT.validate_python(data)


def read(path: Path) -> Iterator[AnyEvent]:
    """Yield all complete lines of a journal in order; skip a last line without newline: it is still being written."""
    with path.open("rb") as file:
        yield from read_lines(file)


def read_lines(lines: Iterable[bytes]) -> Iterator[AnyEvent]:
    """Yield the lines of an open journal, like `read`."""
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return
        yield parse_line(line, number)


def count_attempts(folder: Path) -> int:
    """Count the starts of the run in the folder, from its journal without parsing it; 0 if it never started."""
    return _count(folder, _RUN_STARTED)


def count_rewinds(folder: Path) -> int:
    """Count the rewinds that the journal in the folder reports, without parsing it."""
    return _count(folder, _REWOUND)


def _count(folder: Path, mark: bytes) -> int:
    journal = folder / JOURNAL_FILE
    if not journal.exists():
        return 0
    with journal.open("rb") as lines:
        return sum(mark in line for line in lines)
