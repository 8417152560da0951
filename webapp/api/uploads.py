"""Import of journals sent over HTTP, optionally compressed and in pieces, without storing a file; and of their images.

`Run.journal_offset` is the number of bytes of a run's journal that have been imported.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Greatest
from django.http import HttpRequest
from django.utils import timezone

from trainer.journal.events import RunStarted
from trainer.journal.observation_images import MediaType, ObservationImage
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import JournalError, parse_line
from webapp.api.errors import Problem
from webapp.api.models import SentJournal
from webapp.core.quotas import QuotaExceeded, is_reached, quota
from webapp.core.streaming import release_connection
from webapp.ingest import limits
from webapp.ingest.imports import do_finish_import
from webapp.ingest.tailer import JournalTailer
from webapp.runs import object_storage
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.observation_images import (
    check_image,
    delete_images,
    is_stored,
    referenced_images,
    store_image,
)

PIECE = 1024 * 1024
GZIP = b"\x1f\x8b"
MAX_UPLOADED_LINE = 8 * 1024 * 1024
"""Bytes of a line that are searched for its end, in memory; lines of more than limits.MAX_LINE_BYTES are left out."""
MAX_EVENTS_BEFORE_START = 100
"""Lines searched for run_started."""
SENDER_TIMEOUT = timedelta(minutes=10)
"""Without requests for this long, the sender of a growing journal is considered gone."""
SWEEP_AFTER = timedelta(days=1)
"""Images of a run are swept after this long without requests: a sender sends each before the turn that refers to it."""
logger = logging.getLogger(__name__)


def pieces(request: HttpRequest, limit: int) -> Iterator[bytes]:
    """Yield chunks of the journal in the request's body or form file, decompressed if gzip. Raises Problem."""
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
                f"A request may contain at most {limit:,} bytes of a journal, decompressed. Send the rest in "
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
                raise Problem(422, "The gzip stream is damaged. The part before it was kept; send it again.") from None
            piece = unpack.unconsumed_tail
            if unpack.eof:  # another member may follow
                piece = unpack.unused_data
                unpack = zlib.decompressobj(wbits=31)
    if unpack is not None:
        yield unpack.flush()


class SentLines(JournalTailer):
    """Ingests uploaded bytes; the first byte is at `offset` of the journal.

    Attributes:
        late: the time of the request is used up; the rest is ignored, and the sender continues at the offset.
    """

    def __init__(self, run: Run, offset: int, *, skip_bad_lines: bool = False) -> None:
        super().__init__(run, skip_bad_lines=skip_bad_lines)
        self._start, self._buffer = offset, b""
        self._deadline = time.monotonic() + settings.ECHOSCOPE_IMPORT_SECONDS
        self.late = False

    def feed(self, data: bytes) -> None:
        """Ingest all complete lines. Raises Problem 409 if another sender has sent other pieces."""
        self._buffer += data
        if len(self._buffer) > MAX_UPLOADED_LINE + PIECE:
            raise Problem(422, f"A line of the journal is longer than {MAX_UPLOADED_LINE:,} bytes.")
        if b"\n" in data:
            self.drain()
            done = min(max(0, self.offset - self._start), len(self._buffer))
            self._start, self._buffer = self._start + done, self._buffer[done:]

    def drain(self) -> int:
        """Ingest complete lines until none is left or the time is used up. Returns the number of events.

        The database connection is released between batches, so that many imports do not block pages.
        """
        total = 0
        while not self.late and (count := self.step()):
            total += count
            release_connection()
            self.late = time.monotonic() >= self._deadline
        return total

    def _read(self) -> bytes:
        if not self._start <= self.offset <= self._start + len(self._buffer):
            raise wrong_offset(self.offset)
        at = self.offset - self._start
        end = self._buffer.rfind(b"\n", at, at + PIECE) + 1 or self._buffer.find(b"\n", at) + 1
        return self._buffer[at:end]

    def _advice(self, run: Run, problem: str) -> str:
        return (
            f"The journal cannot be read further: {problem.removesuffix('.')}. Events up to {run.seq} are shown. "
            f"Repair the line and send the journal from byte {run.journal_offset} on, or skip unreadable lines with "
            "skip_bad_lines=true (python -m echoscope push --skip-bad-lines)."
        )


def wrong_offset(expected: int) -> Problem:
    return Problem(
        409,
        f"The journal of this run is stored up to byte {expected}: send it from there.",
        code="wrong_offset",
        details={"offset": expected},
    )


def first_event(stream: Iterator[bytes]) -> tuple[RunStarted, bytes]:
    """Return the run_started near the beginning of a journal, and the bytes read so far. Raises Problem 422."""
    data, at, number = b"", 0, 0
    while number < MAX_EVENTS_BEFORE_START:
        end = data.find(b"\n", at)
        if end < 0:
            piece = next(stream, b"") if len(data) <= limits.MAX_LINE_BYTES else b""
            if not piece:
                break
            data += piece
            continue
        number += 1
        try:
            event = limits.fitted(parse_line(data[at:end], number))
        except JournalError as error:
            raise Problem(422, f"This journal cannot be imported: {error}. Nothing was imported.") from None
        if isinstance(event, RunStarted):
            return event, data
        at = end + 1
    raise Problem(422, "This is not a run's journal: it does not begin with run_started. Nothing was imported.")


def ingest_stream(
    run: Run, offset: int, stream: Iterable[bytes], *, growing: bool, skip_bad_lines: bool
) -> tuple[Run, list[str]]:
    """Ingest the stream and set the run's state from its journal. Events before a Problem are kept.

    Ends after ECHOSCOPE_IMPORT_SECONDS, with at least one batch ingested; the run then counts as growing.

    Returns:
        The run, and the reasons for leaving lines out.
    """
    lines = SentLines(run, offset, skip_bad_lines=skip_bad_lines)
    do_touch_import(run, growing=growing)
    try:
        for piece in stream:
            lines.feed(piece)
            if lines.late:
                growing = True
                do_touch_import(run, growing=growing)
                break
    finally:
        imported = do_finish_import(run, growing=growing)
    stored = Run.objects.select_related("team", "author", "sent_journal").get(pk=imported.pk)
    return stored, lines.left_out


def do_touch_import(run: Run, *, growing: bool) -> None:
    """Record that the run's sender is alive, and whether more will follow."""
    SentJournal.objects.update_or_create(run=run, defaults={"heard_at": timezone.now(), "growing": growing})


def do_finish_silent_imports(now: datetime) -> int:
    """End the import of runs whose sender or reader has disappeared. Returns their number."""
    unread = Run.objects.filter(imported=True, state=Run.State.RUNNING, sent_journal=None)
    abandoned = list(unread.filter(progressed_at__lt=now - SENDER_TIMEOUT))  # a recording whose reader was killed
    for run in abandoned:
        do_finish_import(run, growing=False)
    silent = list(SentJournal.objects.filter(growing=True, heard_at__lt=now - SENDER_TIMEOUT).select_related("run"))
    for sent in silent:
        if SentJournal.objects.filter(pk=sent.pk, heard_at=sent.heard_at).update(growing=False):
            do_finish_import(sent.run, growing=False)
    return len(silent) + len(abandoned)


def do_store_image(run: Run, sha256: str, media_type: MediaType, data: bytes) -> tuple[ObservationImage, bool]:
    """Store an image that turns of the run refer to. Returns its facts, and True if it is new.

    Raises ImageRefused, QuotaExceeded, and Problem 503 if the storage does not answer.
    """
    image = check_image(data, sha256, media_type)
    SentJournal.objects.filter(run=run).update(heard_at=timezone.now())  # or a sweep could delete it before its turn
    try:
        if is_stored(run, image):
            return image, False
        _count_image(run, image)
        try:
            store_image(run, image, data)
        except BaseException:
            _change_count(run, -1, -image.bytes)
            raise
    except object_storage.failures() as error:
        if isinstance(error, QuotaExceeded):
            raise
        raise Problem(503, "The images of this run cannot be stored at the moment. Send it again later.") from error
    return image, True


def _count_image(run: Run, image: ObservationImage) -> None:
    """Count one more image of the run. Raises QuotaExceeded. Two senders at once may exceed it by one each."""
    sent, _ = SentJournal.objects.get_or_create(run=run, defaults={"heard_at": timezone.now()})
    if is_reached("IMAGES_PER_RUN", sent.image_count):
        raise QuotaExceeded(
            f"This run has {sent.image_count:,} images, the most that a run may have here. Record fewer turns with "
            "images, or ask the operator; what was sent is kept."
        )
    megabytes = quota("IMAGE_MB_PER_RUN")
    if megabytes and sent.image_bytes + image.bytes > megabytes * 2**20:
        raise QuotaExceeded(
            f"The images of this run would have more than {megabytes:,} MB, the most that a run may have here. Record "
            "smaller or fewer ones, or ask the operator; what was sent is kept."
        )
    _change_count(run, 1, image.bytes)


def do_count_image(run: Run, image: ObservationImage) -> None:
    """Count an image that was stored without regard to quotas."""
    SentJournal.objects.get_or_create(run=run, defaults={"heard_at": timezone.now()})
    _change_count(run, 1, image.bytes)


def _change_count(run: Run, count: int, size: int) -> None:
    """Change the counts, and request another sweep, since the turn of a new image may never arrive."""
    changes = {"image_count": F("image_count") + count, "image_bytes": F("image_bytes") + size}
    SentJournal.objects.filter(run=run).update(**changes, swept_trajectories=None)


def do_sweep_images(now: datetime) -> int:
    """Delete images that no turn of their run refers to any more, and give back their quota. Returns their number.

    Trajectories are deleted by retention, rewinds and users, so runs are swept after their number of trajectories
    changes.
    """
    trajectories = Trajectory.objects.filter(run=OuterRef("run")).order_by().values("run")
    current = Coalesce(Subquery(trajectories.annotate(number=Count("pk")).values("number")), 0)
    silent = SentJournal.objects.filter(
        run__state__in=Run.ENDED, image_count__gt=0, growing=False, heard_at__lt=now - SWEEP_AFTER
    )
    changed = silent.annotate(current=current).filter(
        Q(swept_trajectories__isnull=True) | ~Q(swept_trajectories=F("current"))
    )
    total = 0
    for key, number in list(changed.values_list("pk", "current")):
        total += _sweep_run(silent.filter(pk=key), number)
    return total


@transaction.atomic
def _sweep_run(rows: QuerySet[SentJournal], trajectories: int) -> int:
    """Sweep one run, unless its sender is back. Requests that send an image wait until the sweep has ended."""
    sent = rows.select_for_update(of=("self",), skip_locked=True).select_related("run").first()
    if sent is None:
        return 0
    gone: dict[str, int] = {}
    try:
        for sha256, size in delete_images(sent.run, keep=referenced_images(sent.run)):
            gone[sha256] = size  # noqa: PERF403 - keeps the files that were deleted before a failure
        sent.swept_trajectories = trajectories
    except object_storage.failures() as error:  # the next sweep deletes the others
        logger.warning("Images of run %s without references could not be deleted: %s", sent.run.slug, error)
    sent.image_count = Greatest(F("image_count") - len(gone), 0)
    sent.image_bytes = Greatest(F("image_bytes") - sum(gone.values()), 0)
    sent.save(update_fields=["image_count", "image_bytes", "swept_trajectories"])
    if gone:
        logger.info("Retention: %d images of run %s without references were deleted.", len(gone), sent.run.slug)
    return len(gone)
