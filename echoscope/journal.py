"""Sending the journal of a run that is trained elsewhere, once or while it grows.

Which run of which site a journal became is remembered in a file beside it, so that pushing again goes on.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from echoscope.errors import Conflict, EchoscopeError, NotFound
from echoscope.models import Journal, RunDetail
from echoscope.transport import Transport

FILE_NAME = "journal.jsonl"
MEMORY = ".echoscope.json"
PIECE = 4 * 1024 * 1024
LONGEST_LINE = 32 * 1024 * 1024
LOOK_EVERY = 1.0
SIGN_OF_LIFE = 60.0
"""Seconds between looks at the file, and between empty pieces that say the sender lives."""

Progress = Callable[[RunDetail, int, int], None]


class JournalApi(Protocol):
    """Operations of the API that sending a journal uses: those of echoscope.client.Client."""

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
    progress: Progress | None,
    sleep: Callable[[float], None],
) -> RunDetail:
    """See Client.push_journal."""
    file = path if path.is_file() else path / FILE_NAME
    if not file.is_file():
        raise EchoscopeError(f"There is no {FILE_NAME} in {path}.")
    if follow:
        _wait_for_a_line(file, sleep)
    known = _known(client, file, run)
    if known is None:
        first, _ = _piece(file, 0)
        known = client.import_journal(
            gzip.compress(first),
            packed=True,
            key=uuid.uuid4().hex,
            title=title,
            visibility=visibility,
            growing=True,
            skip_bad_lines=skip_bad_lines,
        )
        _remember(client, file, known.slug)
        if known.journal.problem:
            client.append_journal(known.slug, known.journal.offset, b"", packed=False, growing=False)
            raise EchoscopeError(known.journal.problem)
    sender = _Sender(client, file, known, skip_bad_lines, progress)
    try:
        sender.send(follow, sleep)
    finally:
        sender.say_goodbye()
    return client.run(known.slug)


class _Sender:
    """What is known of one journal while it is sent."""

    def __init__(
        self, client: JournalApi, file: Path, run: RunDetail, skip_bad_lines: bool, progress: Progress | None
    ) -> None:
        self.client, self.file, self.run = client, file, run
        self.skip_bad_lines, self.progress = skip_bad_lines, progress
        self.offset, self.over = run.journal.offset, False

    def send(self, follow: bool, sleep: Callable[[float], None]) -> None:
        self.over = _ended(self.file, self.offset)
        spoke = 0.0
        while True:
            data, size = _piece(self.file, self.offset)
            if self.progress:
                self.progress(self.run, self.offset, size)
            if data:
                self.offset = self._append(data).offset
                self.over = _is_end(data)
                spoke = time.monotonic()
                continue
            if not follow or self.over:
                return
            if time.monotonic() - spoke >= SIGN_OF_LIFE:
                self._append(b"")
                spoke = time.monotonic()
            sleep(LOOK_EVERY)

    def _append(self, data: bytes) -> Journal:
        """The piece, or, where the site knows more or less than thought, what it says about that."""
        try:
            return self.client.append_journal(
                self.run.slug,
                self.offset,
                gzip.compress(data) if data else b"",
                packed=bool(data),
                growing=True,
                skip_bad_lines=self.skip_bad_lines,
            )
        except Conflict as conflict:
            if conflict.code != "wrong_offset":
                raise
            offset = int(conflict.details["offset"])
            if offset == self.offset:
                raise
            return self.run.journal.model_copy(update={"offset": offset})

    def say_goodbye(self) -> None:
        """Nothing more is to come."""
        try:
            self.client.append_journal(self.run.slug, self.offset, b"", packed=False, growing=False)
        except Conflict:  # somebody else sends the same journal, and goes on
            return


def _piece(file: Path, offset: int) -> tuple[bytes, int]:
    """Complete lines from the offset on, and the size of the file."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        if offset > size:
            raise EchoscopeError(
                f"{file} has {size:,} bytes, but the site knows {offset:,} of this run's journal: it is another one. "
                f"Remove {MEMORY} beside it to send it as a new run."
            )
        limit = PIECE
        while True:
            stream.seek(offset)
            data = stream.read(limit)
            end = data.rfind(b"\n") + 1
            if end or len(data) < limit or limit >= LONGEST_LINE:
                return data[:end], size
            limit *= 2


def _is_end(data: bytes) -> bool:
    """Whether the last line says that the run has ended for good."""
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


def _wait_for_a_line(file: Path, sleep: Callable[[float], None]) -> None:
    while not _piece(file, 0)[0]:
        sleep(LOOK_EVERY)


def _first_line(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.sha256(stream.readline()).hexdigest()


def _known(client: JournalApi, file: Path, run: str | None) -> RunDetail | None:
    """The run that this journal became on this site, if it did."""
    if run is not None:
        return client.run(run)
    found = _memory(file).get(client.transport.url)
    if found is None or found["first_line"] != _first_line(file):
        return None
    try:
        return client.run(found["run"])
    except NotFound:  # deleted since
        return None


def _memory(file: Path) -> dict[str, dict[str, str]]:
    try:
        found = json.loads((file.parent / MEMORY).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(client: JournalApi, file: Path, run: str) -> None:
    memory = _memory(file) | {client.transport.url: {"run": run, "first_line": _first_line(file)}}
    (file.parent / MEMORY).write_text(json.dumps(memory, indent=1), encoding="utf-8")
