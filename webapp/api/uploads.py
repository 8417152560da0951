"""Journals that come in over HTTP: bytes, perhaps compressed, perhaps in pieces, into the tables. No file is kept.

The database is the only memory: `Run.journal_offset` says up to which byte a run's journal is in.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils import timezone

from trainer.journal.events import RunStarted
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import JournalError, parse_line
from webapp.api.errors import Problem
from webapp.api.models import SentJournal
from webapp.ingest.imports import do_finish_import
from webapp.ingest.tailer import MAX_LINE_BYTES, JournalTailer
from webapp.runs.models import Run

PIECE = 1024 * 1024
GZIP = b"\x1f\x8b"
MOST_BEFORE_START = 100
"""Events that may come before run_started."""
SILENCE = timedelta(minutes=10)
"""A sender that said more is to come, and then was silent for so long, has gone."""


def pieces(request: HttpRequest, limit: int) -> Iterator[bytes]:
    """The journal in the request: its body, or the file of a form; unpacked if it is gzip. Raises Problem."""
    if request.content_type == "multipart/form-data":
        file = request.FILES.get("file")
        if file is None:
            raise Problem(
                422, f"The form has no file: send {JOURNAL_FILE} in the field “file”.", fields={"file": "is required"}
            )
        read = file.read
    else:
        read = request.read
    total = 0
    for piece in _unpacked(iter(lambda: read(PIECE), b"")):
        total += len(piece)
        if total > limit:
            raise Problem(
                413,
                f"A request takes at most {limit:,} bytes of a journal, counted after unpacking. Send the rest in "
                "further pieces (python -m echoscope push does).",
            )
        yield piece


def _unpacked(raw: Iterable[bytes]) -> Iterator[bytes]:
    unpack = None
    for number, piece in enumerate(raw):
        if number == 0 and piece.startswith(GZIP):
            unpack = zlib.decompressobj(wbits=31)
        if unpack is None:
            yield piece
            continue
        while piece:
            try:
                yield unpack.decompress(piece, PIECE)
            except zlib.error:
                raise Problem(422, "The gzip stream is damaged. What came before it was kept; send it again.") from None
            piece = unpack.unconsumed_tail
            if unpack.eof:  # another member may follow
                piece = unpack.unused_data
                unpack = zlib.decompressobj(wbits=31)
    if unpack is not None:
        yield unpack.flush()


class SentLines(JournalTailer):
    """The ingest of bytes that were sent: the first of them stands at `offset` of the journal."""

    def __init__(self, run: Run, offset: int, *, skip_bad_lines: bool = False) -> None:
        super().__init__(run, skip_bad_lines=skip_bad_lines)
        self._start, self._held = offset, b""

    def feed(self, data: bytes) -> None:
        """Take in every line that is complete by now. Raises Problem 409 when somebody else sent other pieces."""
        self._held += data
        if len(self._held) > 2 * MAX_LINE_BYTES:
            raise Problem(422, f"A line of the journal is longer than {MAX_LINE_BYTES:,} bytes.")
        if b"\n" in data:
            self.drain()
            known = min(max(0, self.offset - self._start), len(self._held))
            self._start, self._held = self._start + known, self._held[known:]

    def _read(self) -> bytes:
        if not self._start <= self.offset <= self._start + len(self._held):
            raise wrong_offset(self.offset)
        at = self.offset - self._start
        end = self._held.rfind(b"\n", at, at + PIECE) + 1 or self._held.find(b"\n", at) + 1
        return self._held[at:end]

    def _advice(self, run: Run, problem: str) -> str:
        return (
            f"The journal cannot be read on: {problem.removesuffix('.')}. Everything up to event {run.seq} is shown. "
            f"Repair the line and send the journal from byte {run.journal_offset} on, or leave out what cannot be read "
            "with skip_bad_lines=true (python -m echoscope push --skip-bad-lines)."
        )


def wrong_offset(expected: int) -> Problem:
    return Problem(
        409,
        f"The journal of this run is known up to byte {expected}: send it from there.",
        code="wrong_offset",
        details={"offset": expected},
    )


def first_event(stream: Iterator[bytes]) -> tuple[RunStarted, bytes]:
    """The run_started near the beginning of a journal, and the bytes read so far. Raises Problem 422."""
    data, at, number = b"", 0, 0
    while number < MOST_BEFORE_START:
        end = data.find(b"\n", at)
        if end < 0:
            piece = next(stream, b"") if len(data) <= MAX_LINE_BYTES else b""
            if not piece:
                break
            data += piece
            continue
        number += 1
        try:
            event = parse_line(data[at:end], number)
        except JournalError as error:
            raise Problem(422, f"This journal cannot be imported: {error}. Nothing was imported.") from None
        if isinstance(event, RunStarted):
            return event, data
        at = end + 1
    raise Problem(422, "This is no journal of a run: it does not begin with run_started. Nothing was imported.")


def take_in(run: Run, offset: int, stream: Iterable[bytes], *, growing: bool, skip_bad_lines: bool) -> Run:
    """Read what was sent, and leave the run in the state that its journal tells. What came before a Problem is kept."""
    lines = SentLines(run, offset, skip_bad_lines=skip_bad_lines)
    do_touch_import(run, growing=growing)
    try:
        for piece in stream:
            lines.feed(piece)
    finally:
        settled = do_finish_import(run, growing=growing)
    return Run.objects.select_related("team", "author", "sent_journal").get(pk=settled.pk)


def do_touch_import(run: Run, *, growing: bool) -> None:
    """Note that the run's sender lives, and whether it has more to send."""
    SentJournal.objects.update_or_create(run=run, defaults={"heard_at": timezone.now(), "growing": growing})


def do_finish_silent_imports(now: datetime) -> int:
    """Runs whose sender went without a word count as running no longer. Returns how many there were."""
    silent = list(SentJournal.objects.filter(growing=True, heard_at__lt=now - SILENCE).select_related("run"))
    for sent in silent:
        if SentJournal.objects.filter(pk=sent.pk, heard_at=sent.heard_at).update(growing=False):
            do_finish_import(sent.run, growing=False)
    return len(silent)
