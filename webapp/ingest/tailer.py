"""Tails a run's journal into PostgreSQL: rows, websocket frame and offset in one transaction, then a notification.

Reading the same bytes twice is a no-op: the offset is checked under the run's row lock.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from trainer.journal.events import RunStarted, TrajectoryTokens
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import JournalError, parse_line
from webapp.ingest import writer
from webapp.ingest.echo_trap_detector import JudgedBatch, do_judge_iterations
from webapp.ingest.event_frames import frame_text
from webapp.ingest.lines import JournalLine, leave_out, read_line
from webapp.runs.actions import notify_on_commit
from webapp.runs.models import Checkpoint, EventBatch, Run
from webapp.runs.untrusted_folder import UntrustedFolder

logger = logging.getLogger(__name__)

BATCH_BYTES = 256 * 1024
MAX_LINE_BYTES = 32 * 1024 * 1024
"""Longest line that is searched for its end; lines of more than limits.MAX_LINE_BYTES are left out."""
MAX_REASONS = 20


class JournalMismatch(Exception):
    """The file is another one than before, or only the beginning of it.

    Attributes:
        same_run: the file begins as before, but a power cut removed its end, including lines that had been read.
    """

    def __init__(self, path: Path, problem: str, *, same_run: bool) -> None:
        super().__init__(
            f"The journal {path} {problem}. Everything read so far is still shown, but nothing can be added. Restore "
            "the folder of the run from a backup and resume it; or rebuild these pages from the file as it is: "
            f"python manage.py rebuild_run {path.parent.name}"
        )
        self.same_run = same_run


def fingerprint(line: bytes) -> str:
    """Return size and SHA-256 of the last line read, which identify the file later."""
    return f"{len(line)}:{hashlib.sha256(line).hexdigest()[:32]}"


class JournalTailer:
    """The reader of one run's journal. All state that a later reader needs is in the database.

    Attributes:
        left_out: reasons for the first MAX_REASONS lines that were left out.
    """

    mismatch: JournalMismatch | None = None
    """Reason why the file is not read any more; the tables have to be rebuilt from it, or the file restored."""

    def __init__(self, run: Run, folder: Path | None = None, *, skip_bad_lines: bool = False) -> None:
        self.run_id = run.pk
        self._started_at = run.started_at
        self._tail = run.journal_tail
        self._verified: tuple[int, int] | None = None
        self._inside = UntrustedFolder(folder or run.folder)
        self.path = self._inside.path_to(JOURNAL_FILE)
        self.offset = run.journal_offset
        self.skip_bad_lines = skip_bad_lines
        self.left_out: list[str] = []
        self._bad: bytes | None = None
        self._batch: list[bytes] = []
        self._refused: dict[bytes, str] = {}

    def drain(self) -> int:
        """Ingest all complete lines. Returns the number of events."""
        total = 0
        while count := self.step():
            total += count
        return total

    def step(self) -> int:
        """Ingest the next batch, at most BATCH_BYTES unless one line is longer. Returns the number of events."""
        max_lines = BATCH_BYTES  # at most one line per byte
        while True:
            try:
                return self._step(max_lines)
            except JournalMismatch as mismatch:
                self.mismatch = mismatch
                self._record_mismatch(str(mismatch))
                return 0
            except (DataError, IntegrityError) as error:  # a value out of range, or negative: find its line
                if len(self._batch) == 1:
                    words = str(error).splitlines()[0]
                    self._refused[self._batch[0]] = f"holds a value that the database does not take ({words})"
                    max_lines = BATCH_BYTES
                else:
                    max_lines = len(self._batch) // 2

    def _step(self, max_lines: int) -> int:
        data = self._read()
        if not data or data == self._bad:
            return 0
        with transaction.atomic():
            _commit_without_waiting()
            run = Run.objects.select_for_update().get(pk=self.run_id)
            if run.journal_offset != self.offset:  # another reader was faster
                self.offset, self._tail, self._verified = run.journal_offset, run.journal_tail, None
                data = self._read()
            taken, problem = self._apply(run, data, max_lines)
        self.offset, self._tail = run.journal_offset, run.journal_tail
        self._bad = data if problem and not taken else None
        self.left_out = [*self.left_out, *(line.left_out for line in taken if line.left_out)][:MAX_REASONS]
        return len(taken)

    def _read(self) -> bytes:
        """Return the complete lines after the offset. Raises JournalMismatch."""
        limit = BATCH_BYTES
        try:
            with self._inside.open(JOURNAL_FILE) as file:
                self._verify(file)
                while True:
                    file.seek(self.offset)
                    data = file.read(limit)
                    end = data.rfind(b"\n") + 1
                    if end or len(data) < limit or limit >= MAX_LINE_BYTES:
                        return data[:end]
                    limit *= 2
        except FileNotFoundError:
            if self.offset:
                raise JournalMismatch(self.path, "is gone", same_run=False) from None
            return b""

    def _verify(self, file: BinaryIO) -> None:
        """Compare the file with what was read before: always its length, and its last line if the file was replaced."""
        if not self.offset:
            return
        status = os.fstat(file.fileno())
        if status.st_size < self.offset:
            problem = f"has {status.st_size:,} bytes, of {self.offset:,} that were read before"
            raise JournalMismatch(self.path, problem, same_run=self._is_of_this_run(file))
        identity = (status.st_dev, status.st_ino)
        if identity == self._verified:
            return
        if self._tail:
            size, _, _ = self._tail.partition(":")
            file.seek(max(0, self.offset - int(size)))
            if fingerprint(file.read(int(size))) != self._tail:
                problem = "does not hold what was read before"
                raise JournalMismatch(self.path, problem, same_run=self._is_of_this_run(file))
        self._verified = identity

    def _is_of_this_run(self, file: BinaryIO) -> bool:
        """Return True if the file begins as the journal read before: its first attempt started at the same moment.

        A file that was cut before that holds nothing that was trained. Its lines must equal the ones that were read.
        """
        file.seek(0)
        begun: list[bytes] = []
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
            if not line.endswith(b"\n"):
                break
            try:
                event = parse_line(line, number)
            except JournalError:
                return False
            if isinstance(event, RunStarted):
                return writer.moment(event.time) == self._started_at
            begun.append(line)
        return not Checkpoint.objects.filter(run=self.run_id).exists() and self._was_read(begun)

    def _was_read(self, lines: list[bytes]) -> bool:
        """Return True if the stored events begin with these lines; False if the frames have been pruned."""
        frames = EventBatch.objects.filter(run=self.run_id, first_seq__lte=len(lines)).order_by("first_seq")
        stored = [event for text in frames.values_list("frame", flat=True) for event in json.loads(text)["events"]]
        return [json.loads(line) for line in lines] == stored[: len(lines)]

    def _record_mismatch(self, message: str) -> None:
        with transaction.atomic():
            run = Run.objects.select_for_update().get(pk=self.run_id)
            if run.journal_error != message:
                logger.error("Run %s: %s", run.slug, message)
                run.journal_error = message
                run.save(update_fields=["journal_error"])
                notify_on_commit(run.pk)

    def _apply(self, run: Run, data: bytes, max_lines: int) -> tuple[list[JournalLine], str]:
        lines, problem = self._parse(data, run.seq, max_lines)
        lines, inconsistency = writer.validate(run, lines, skip_bad_lines=self.skip_bad_lines)
        problem = inconsistency or problem
        if lines:
            slugs = writer.write(run, lines)
            judged = None if run.recorded is None else do_judge_iterations(run, [line.event for line in lines])
            first, last = lines[0].event.seq, lines[-1].event.seq
            EventBatch.objects.create(run=run, first_seq=first, last_seq=last, frame=frame(lines, slugs, judged))
            run.seq, run.progressed_at = last, timezone.now()
            end = sum(line.size for line in lines)
            run.journal_offset += end
            run.journal_tail = fingerprint(data[end - lines[-1].size : end])
        message = self._advice(run, problem) if problem else ""
        if lines or message != run.journal_error:
            if message:
                logger.error("Run %s: %s", run.slug, message)
            run.journal_error = message
            run.save(update_fields=writer.WRITTEN)
            notify_on_commit(run.pk)
        return lines, problem

    def _parse(self, data: bytes, seq: int, max_lines: int) -> tuple[list[JournalLine], str]:
        """Parse at most `max_lines` lines, up to the first unreadable line or the next start of an attempt."""
        lines: list[JournalLine] = []
        self._batch = []
        for number, raw in enumerate(islice(BytesIO(data), max_lines), seq + 1):
            try:
                if raw in self._refused:
                    raise JournalError(f"line {number} {self._refused[raw]}")
                line = read_line(raw, number)
            except (JournalError, UnicodeDecodeError) as error:
                if not self.skip_bad_lines or _is_event_of_another_line(raw, number):
                    return lines, str(error)
                lines.append(leave_out(number, len(raw), str(error)))
                continue
            if isinstance(line.event, RunStarted) and lines:
                break
            lines.append(line)
            self._batch.append(raw)
        return lines, ""

    def _advice(self, run: Run, problem: str) -> str:
        problem = problem.removesuffix(".")
        return (
            f"The journal cannot be read further: {problem}. Events up to {run.seq} are shown. Training is not "
            f"affected: its results and checkpoints are kept in {self.path.parent}. If the line is repaired while the "
            "run goes on, this page goes on by itself. To leave out what cannot be read: "
            f"python manage.py import_journal --run {run.slug} --skip-bad-lines"
        )


def _commit_without_waiting() -> None:
    """Commit without waiting for the disk, which was most of the ingest's delay.

    If PostgreSQL crashes, the lost events are read again from the journal: the offset is rolled back with them.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit TO off")


def _is_event_of_another_line(raw: bytes, number: int) -> bool:
    """Return True if lines before it are missing: skipping it would then skip everything that follows."""
    try:
        seq = json.loads(raw).get("seq")
    except (ValueError, AttributeError, RecursionError):
        return False
    return isinstance(seq, int) and seq != number


def frame(lines: list[JournalLine], slugs: dict[int, list[str]], judged: JudgedBatch | None = None) -> str:
    """Return the websocket frame: the journal's lines, with the slugs of the members added to each group_started.

    One event also has the site's verdicts, as `judged`. Token arrays are left out: they are fetched per trajectory.
    """
    texts = []
    for line in lines:
        text = line.text
        if line.event.seq in slugs:
            text = f'{text.rstrip()[:-1]},"slugs":{json.dumps(slugs[line.event.seq])}}}'
        if isinstance(line.event, TrajectoryTokens):
            text = line.event.model_dump_json(exclude={"data"}, exclude_none=True)
        if judged is not None and line.event.seq == judged.seq:
            text = f'{text.rstrip()[:-1]},"judged":{json.dumps(judged.as_data())}}}'
        texts.append(text)
    first, last = lines[0].event.seq, lines[-1].event.seq
    return frame_text(first, last, texts)
