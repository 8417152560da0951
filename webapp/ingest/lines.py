"""Lines of journals as the site stores them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from trainer.journal.events import AnyEvent, Notice
from trainer.journal.reader import UnknownEventError, parse_line
from webapp.ingest import limits

NUL = b"\\u0000"


@dataclass(frozen=True)
class JournalLine:
    """A complete line of the journal: its event, its text for browsers, and its bytes.

    Attributes:
        left_out: why a notice replaces the line; empty if the line was read.
    """

    event: AnyEvent
    text: str
    size: int
    left_out: str = ""


def read_line(raw: bytes, number: int) -> JournalLine:
    """Parse a line, without NUL characters and with long texts cut.

    A line that is too large, or of a type that only newer versions know, becomes a placeholder.

    Limits also apply to our own trainer, since environments, tools and policies write into its lines.

    Raises:
        JournalError, UnicodeDecodeError: the line is not an event, or exceeds a limit and cannot be cut.
    """
    size, most = len(raw), limits.MAX_LINE_BYTES
    if size > most:
        return leave_out(number, size, f"line {number} has {size:,} bytes, and at most {most:,} are read")
    try:
        event, text = parse_line(raw, number), raw.decode().rstrip("\n")
        if NUL in raw:
            event, text = _without_nul(text, number)
        shorter = limits.fitted(event)
    except (limits.LineLeftOut, UnknownEventError) as error:
        return leave_out(number, size, str(error))
    if shorter is not event:
        event, text = shorter, shorter.model_dump_json(exclude_none=True)
    return JournalLine(event, text, size)


def leave_out(number: int, size: int, problem: str) -> JournalLine:
    """Return the placeholder for an invalid line."""
    event = Notice(seq=number, level="error", message=f"An event was left out: {problem}.")
    return JournalLine(event, event.model_dump_json(exclude_none=True), size, problem)


def _without_nul(text: str, number: int) -> tuple[AnyEvent, str]:
    """Replace NUL characters, which PostgreSQL cannot store, with their symbol."""

    def clean(value: object) -> object:
        if isinstance(value, str):
            return value.replace("\0", "␀")
        if isinstance(value, list):
            return [clean(item) for item in value]
        if isinstance(value, dict):
            return {clean(key): clean(item) for key, item in value.items()}
        return value

    cleaned = json.dumps(clean(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
    return parse_line(cleaned, number), cleaned
