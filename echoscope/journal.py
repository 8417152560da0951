"""Uploads the journal of a run that is trained elsewhere, once or while it grows, with the images of its turns.

A file in the journal's folder records the runs that it was pushed to, so that a later push continues them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from echoscope.errors import Conflict, EchoscopeError, NotFound
from echoscope.image_upload import ImageApi, ImageUpload, Report, before_images, ignore
from echoscope.launch_body import Visibility
from echoscope.models import Journal, ObservationImage, RunDetail
from echoscope.transport import Transport

FILE_NAME = "journal.jsonl"
RECORD_FILE = ".echoscope.json"
CHUNK_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 32 * 1024 * 1024
POLL_SECONDS = 1.0
HEARTBEAT_SECONDS = 60.0
"""Seconds between reads of the file, and between empty requests that show that the sender is alive."""

Progress = Callable[[RunDetail, int, int], None]


class JournalApi(ImageApi, Protocol):
    """API operations that send a journal, as in echoscope.client.Client."""

    transport: Transport

    def run(self, run: str) -> RunDetail: ...

    def import_journal(self, data: bytes, *, packed: bool, key: str, **query: Any) -> RunDetail: ...

    def append_journal(self, run: str, offset: int, data: bytes, *, packed: bool, **query: Any) -> Journal: ...


def push(
    client: JournalApi,
    path: Path,
    *,
    follow: bool,
    run: str | None,
    title: str,
    visibility: str,
    skip_bad_lines: bool,
    skip_bad_images: Report | None,
    report: Report,
    progress: Progress | None,
    sleep: Callable[[float], None],
) -> RunDetail:
    """See Client.push_journal."""
    file = path if path.is_file() else path / FILE_NAME
    if not file.is_file():
        raise EchoscopeError(f"There is no {FILE_NAME} in {path}.")
    if follow:
        _wait_for_first_line(file, sleep)
    target = _recorded_run(client, file, run)
    if target is None:
        first, _ = _chunk(file, 0)
        target = client.import_journal(
            gzip.compress(before_images(first)),
            packed=True,
            key=uuid.uuid4().hex,
            title=title,
            visibility=visibility,
            growing=True,
            skip_bad_lines=skip_bad_lines,
        )
        _record_run(client, file, target.slug)
        _report_left_out(target.journal, report)
        if target.journal.problem:
            client.append_journal(target.slug, target.journal.offset, b"", packed=False, growing=False)
            raise EchoscopeError(target.journal.problem)
    images = ImageUpload(client, file.parent, target.slug, skip_bad_images)
    sender = _Sender(client, file, target, skip_bad_lines, images, report, progress)
    try:
        sender.send(follow, sleep)
    finally:
        sender.announce_end()
    return client.run(target.slug)


class _Sender:
    """State of one upload."""

    def __init__(
        self,
        client: JournalApi,
        file: Path,
        run: RunDetail,
        skip_bad_lines: bool,
        images: ImageUpload,
        report: Report,
        progress: Progress | None,
    ) -> None:
        self.client, self.file, self.run = client, file, run
        self.skip_bad_lines, self.images = skip_bad_lines, images
        self.report, self.progress = report, progress
        self.offset, self.complete = run.journal.offset, False

    def send(self, follow: bool, sleep: Callable[[float], None]) -> None:
        self.complete = _ended(self.file, self.offset)
        sent_at = 0.0
        while True:
            data, size = _chunk(self.file, self.offset)
            if self.progress:
                self.progress(self.run, self.offset, size)
            if data:
                self.images.send_images(data)
                self.offset = self._append(data).offset
                self.complete = _is_end(data)
                sent_at = time.monotonic()
                continue
            if not follow or self.complete:
                return
            if time.monotonic() - sent_at >= HEARTBEAT_SECONDS:
                self._append(b"")
                sent_at = time.monotonic()
            sleep(POLL_SECONDS)

    def _append(self, data: bytes) -> Journal:
        """Send a chunk. If the site expects another offset, sends nothing and returns that offset."""
        try:
            received = self.client.append_journal(
                self.run.slug,
                self.offset,
                gzip.compress(data) if data else b"",
                packed=bool(data),
                growing=True,
                skip_bad_lines=self.skip_bad_lines,
            )
            _report_left_out(received, self.report)
            return received
        except Conflict as conflict:
            if conflict.code != "wrong_offset":
                raise
            offset = int(conflict.details["offset"])
            if offset == self.offset:
                raise
            return self.run.journal.model_copy(update={"offset": offset})

    def announce_end(self) -> None:
        """Announce that nothing more will be sent."""
        try:
            self.client.append_journal(self.run.slug, self.offset, b"", packed=False, growing=False)
        except Conflict:  # another process sends the same journal
            return


def _report_left_out(received: Journal, report: Report) -> None:
    """Report the lines that the site replaced with a notice."""
    for problem in received.left_out:
        report(f"The site left out an event: {problem}.")


def _chunk(file: Path, offset: int) -> tuple[bytes, int]:
    """Return complete lines from the offset, and the size of the file."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        if offset > size:
            raise EchoscopeError(
                f"{file} has {size:,} bytes, but the site has {offset:,} of this run's journal: it is another journal. "
                f"Remove {RECORD_FILE} beside it to send it as a new run."
            )
        limit = CHUNK_BYTES
        while True:
            stream.seek(offset)
            data = stream.read(limit)
            end = data.rfind(b"\n") + 1
            if end or len(data) < limit or limit >= MAX_LINE_BYTES:
                return data[:end], size
            limit *= 2


def _is_end(data: bytes) -> bool:
    """Return True if the last line is the final end of the run."""
    last = data.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        event = json.loads(last)
    except ValueError:
        return False
    return isinstance(event, dict) and event.get("type") == "run_finished" and event.get("reason") != "interrupted"


def _ended(file: Path, offset: int) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(0, offset - 64 * 1024))
        return _is_end(stream.read(offset - max(0, offset - 64 * 1024)))


def _wait_for_first_line(file: Path, sleep: Callable[[float], None]) -> None:
    while not _chunk(file, 0)[0]:
        sleep(POLL_SECONDS)


def _first_line(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.sha256(stream.readline()).hexdigest()


def _recorded_run(client: JournalApi, file: Path, run: str | None) -> RunDetail | None:
    """Return the run on this site that the journal was pushed to, if any."""
    if run is not None:
        return client.run(run)
    record = _records(file).get(client.transport.url)
    if record is None or record["first_line"] != _first_line(file):
        return None
    try:
        return client.run(record["run"])
    except NotFound:  # deleted meanwhile
        return None


def _records(file: Path) -> dict[str, dict[str, str]]:
    try:
        records = json.loads((file.parent / RECORD_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return records if isinstance(records, dict) else {}


def _record_run(client: JournalApi, file: Path, run: str) -> None:
    records = _records(file) | {client.transport.url: {"run": run, "first_line": _first_line(file)}}
    (file.parent / RECORD_FILE).write_text(json.dumps(records, indent=1), encoding="utf-8")


class JournalUploads(ABC):
    """Part of echoscope.client.Client."""

    transport: Transport
    _sleep: Callable[[float], None]

    @abstractmethod
    def run(self, run: str) -> RunDetail:
        """Return a run with its configuration."""

    def push_journal(
        self,
        path: str | Path,
        *,
        follow: bool = False,
        run: str | None = None,
        title: str = "",
        visibility: Visibility = "team",
        skip_bad_lines: bool = False,
        skip_bad_images: Report | None = None,
        report: Report = ignore,
        progress: Callable[[RunDetail, int, int], None] | None = None,
    ) -> RunDetail:
        """Send a run's journal (its folder, or the file), from the last byte received by the site.

        `follow` continues while the journal grows, until its run has ended; an exception such as KeyboardInterrupt ends
        it cleanly. `progress` receives the run, the bytes received by the site and the size of the file.
        `skip_bad_images` receives the problem of a missing or refused image; without it, the problem ends the upload.
        `report` receives the lines that the site left out, with reasons: lines that are too long, and invalid lines.
        """
        return push(
            self,
            Path(path),
            follow=follow,
            run=run,
            title=title,
            visibility=visibility,
            skip_bad_lines=skip_bad_lines,
            skip_bad_images=skip_bad_images,
            report=report,
            progress=progress,
            sleep=self._sleep,
        )

    def import_journal(self, data: bytes, *, packed: bool, key: str, **query: Any) -> RunDetail:
        """Create a run from the beginning of a journal; `packed` means compressed with gzip."""
        headers = {"Content-Type": _media(packed), "Idempotency-Key": key}
        answer = self.transport.send(
            "POST", "/runs/import", query=query, content=data, headers=headers, repeatable=True
        )
        return RunDetail.model_validate(answer.json())

    def append_journal(self, run: str, offset: int, data: bytes, *, packed: bool, **query: Any) -> Journal:
        """Send the next part of a journal. Raises Conflict with the expected offset in details["offset"]."""
        answer = self.transport.send(
            "PUT",
            f"/runs/{run}/journal",
            query={"offset": offset, **query},
            content=data,
            headers={"Content-Type": _media(packed)},
            repeatable=True,
        )
        return Journal.model_validate(answer.json())

    def put_image(self, run: str, sha256: str, media_type: str, data: bytes) -> ObservationImage:
        """Send an image that turns refer to, before these turns. Sending the same image again changes nothing."""
        answer = self.transport.send(
            "PUT",
            f"/runs/{run}/images/{sha256}",
            content=data,
            headers={"Content-Type": media_type},
            repeatable=True,
        )
        return ObservationImage.model_validate(answer.json())

    def image(self, trajectory: str, sha256: str, path: Path) -> Path:
        """Save an image that a turn of the trajectory refers to at `path`."""
        return self.transport.download(f"/trajectories/{trajectory}/images/{sha256}", path)


def _media(packed: bool) -> str:
    return "application/gzip" if packed else "application/x-ndjson"
