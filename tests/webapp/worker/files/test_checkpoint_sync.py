"""Journals rebuilt from the database, where a worker was lost with its disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.webapp import journal_builder
from tests.webapp.ingest.test_token_arrays_ingest import with_tokens
from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import EventBatch, Run
from webapp.worker.files.checkpoint_sync import journal_after

pytestmark = pytest.mark.django_db

ONE, FIVE = (
    f"{number} only in the database: the worker was lost before the journal was copied."
    for number in ("1 event of the journal is", "5 events of the journal are")
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Folder of a run of one iteration with four token arrays."""
    journal_builder.write(tmp_path / "lost", *with_tokens())
    return tmp_path / "lost"


@pytest.fixture
def ingested(run: Run, written: Path) -> Run:
    """That run, with a frame of its own for the last event."""
    *earlier, last = (written / JOURNAL_FILE).read_bytes().splitlines(keepends=True)
    (written / JOURNAL_FILE).write_bytes(b"".join(earlier))
    JournalTailer(run, written).drain()
    with (written / JOURNAL_FILE).open("ab") as file:
        file.write(last)
    run = Run.objects.get(pk=run.pk)
    JournalTailer(run, written).drain()
    return Run.objects.get(pk=run.pk)


def journal(folder: Path) -> list[events.AnyEvent]:
    return list(reader.read(folder / JOURNAL_FILE))


def restored(run: Run, written: Path, lines: int = 0) -> Path:
    """Folder with the journal, of which the first `lines` were copied and the others restored."""
    folder = written.parent / "found"
    folder.mkdir()
    copied = (written / JOURNAL_FILE).read_bytes().splitlines(keepends=True)[:lines]
    (folder / JOURNAL_FILE).write_bytes(b"".join([*copied, *journal_after(run, lines)]))
    return folder


def placeholders(before: list[events.AnyEvent], after: list[events.AnyEvent]) -> list[events.AnyEvent]:
    return [new for old, new in zip(before, after, strict=True) if new != old]


def token_lines(folder: Path) -> list[int]:
    return [event.seq for event in journal(folder) if event.type == "trajectory_tokens"]


def test_lines_that_are_not_restored_have_one_notice_and_all_lines_keep_their_numbers(
    ingested: Run, written: Path
) -> None:
    EventBatch.objects.get(first_seq=ingested.seq).delete()
    after = journal(restored(ingested, written))
    assert [event.seq for event in after] == list(range(1, ingested.seq + 1))
    notice, *fillers = placeholders(journal(written), after)
    assert isinstance(notice, events.Notice)
    assert (notice.seq, notice.message) == (token_lines(written)[0], FIVE)
    assert [event.seq for event in fillers] == [*token_lines(written)[1:], ingested.seq]


def test_a_restored_journal_is_ingested_with_one_more_log_line(ingested: Run, written: Path) -> None:
    shown = set(ingested.log_lines.values_list("message", flat=True))
    noticed = set(ingested.notices.values_list("message", flat=True))
    checkpoints = list(ingested.checkpoints.values_list("iteration", flat=True))
    rebuilt = do_rebuild(ingested, restored(ingested, written))
    assert (rebuilt.journal_error, rebuilt.seq) == ("", ingested.seq)
    message = FIVE.replace("5", "4")
    assert set(rebuilt.log_lines.values_list("message", flat=True)) == shown | {message}
    assert set(rebuilt.notices.values_list("message", flat=True)) == noticed | {message}
    assert rebuilt.notices.count() == len(noticed) + 1
    assert list(rebuilt.checkpoints.values_list("iteration", flat=True)) == checkpoints


def test_a_single_line_that_is_not_restored_is_counted_as_one(ingested: Run, written: Path) -> None:
    after = journal(restored(ingested, written, lines=token_lines(written)[-2]))
    (notice,) = placeholders(journal(written), after)
    assert isinstance(notice, events.Notice)
    assert notice.message == ONE


def test_a_journal_of_which_every_line_is_known_is_restored_as_it_was(ingested: Run, written: Path) -> None:
    folder = restored(ingested, written, lines=token_lines(written)[-1])
    assert journal(folder) == journal(written)
