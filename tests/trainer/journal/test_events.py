"""Journal writer and reader: numbered lines, recovery after a crash, invalid lines."""

import errno
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.journal.events import Notice, Phase
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import JournalError, parse_line, read
from trainer.journal.writer import Journal

messages = st.lists(st.text(max_size=40), min_size=1, max_size=6)


def notice(text):
    return Notice(level="info", message=text)


@given(st.lists(messages, max_size=4))
def test_events_are_read_back_in_order(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("run")
    journal = Journal(folder)
    for batch in batches:
        journal.write(*map(notice, batch))
    journal.close()
    events = list(read(folder / JOURNAL_FILE))
    assert [event.message for event in events] == [text for batch in batches for text in batch]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


@given(messages, messages, st.integers(0, 200))
def test_after_a_crash_the_numbers_continue_after_the_last_complete_line(tmp_path_factory, before, after, cut):
    folder = tmp_path_factory.mktemp("run")
    journal = Journal(folder)
    journal.write(*map(notice, before))
    journal.close()
    path = folder / JOURNAL_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[: max(0, len(whole) - cut)])
    kept = path.read_bytes().count(b"\n")
    assert len(list(read(path))) == kept, "a reader skips the incomplete line"
    journal = Journal(folder)
    assert journal.seq == kept
    journal.write(*map(notice, after))
    journal.close()
    assert [event.message for event in read(path)] == before[:kept] + after


def test_writing_nothing_writes_nothing(tmp_path):
    journal = Journal(tmp_path)
    journal.write()
    journal.write(notice("a"))
    journal.close()
    assert (tmp_path / JOURNAL_FILE).read_bytes().count(b"\n") == 1


def test_a_failed_batch_write_leaves_no_line(tmp_path):
    journal = Journal(tmp_path)
    journal.write(notice("good"))
    broken = Phase(phase="rollout", iteration=1, tokens_per_second=float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        journal.write(notice("beside it"), broken)
    journal.close()
    assert [event.message for event in read(tmp_path / JOURNAL_FILE)] == ["good"]


class NearlyFullFile:
    """The journal's file on a disk that accepts a few bytes at a time, then none."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self.file.write(data[: min(7, self.room)])
        self.room -= taken
        return taken

    def fileno(self):
        return self.file.fileno()


def test_partial_writes_are_continued(tmp_path):
    journal = Journal(tmp_path)
    file, journal._file = journal._file, NearlyFullFile(journal._file, 10_000)
    journal.write(notice("a"), notice("b"))
    file.close()
    assert [event.message for event in read(tmp_path / JOURNAL_FILE)] == ["a", "b"]


@given(room=st.integers(0, 400), before=st.integers(0, 2))
def test_what_follows_a_write_on_a_full_disk_can_be_read(room, before):
    """As the event that ends the run with this error, once there is space again."""
    with TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        for number in range(before):
            journal.write(notice(f"before {number}"))
        file, journal._file = journal._file, NearlyFullFile(journal._file, room)
        batch, end = ["a", "bé", "c"], []
        try:
            journal.write(*map(notice, batch))
        except OSError:
            journal._file = file
            batch, end = batch[: journal.seq - before], ["the end"]
            journal.write(notice("the end"))
        file.close()
        found = [event.message for event in read(Path(folder) / JOURNAL_FILE)]
        assert found == [*(f"before {number}" for number in range(before)), *batch, *end]


def test_an_event_that_cannot_be_written_uses_no_number(tmp_path):
    journal = Journal(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        journal.write(Phase(phase="rollout", iteration=1, tokens_per_second=float("nan")))
    journal.write(notice("next"))
    journal.close()
    (event,) = read(tmp_path / JOURNAL_FILE)
    assert event.seq == 1


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("nonsense", "line 3 is not an event: Invalid JSON"),
        ("{}", "line 3 is not an event: Unable to extract tag"),
        ('{"type":"party"}', "line 3 is not an event"),
        ('{"type":"notice","seq":3,"level":"info"}', "line 3 is not an event: notice.message: Field required"),
        ('{"type":"phase","seq":3,"phase":"load","iteration":"1"}', "phase.iteration: Input should be a valid integer"),
        ('{"type":"notice","seq":2,"level":"info","message":"a"}', "line 3 has seq 2: lines are missing"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number_and_problem(line, complaint):
    with pytest.raises(JournalError) as refusal:
        parse_line(line, 3)
    assert complaint in str(refusal.value)


def test_fields_of_other_recorders_become_extra():
    line = '{"type":"notice","seq":1,"level":"info","message":"a","judge":{"score":0.5},"run":3,"extra":{"run":4}}'
    event = parse_line(line, 1)
    assert event.extra == {"judge": {"score": 0.5}, "run": 4}
    assert parse_line(event.model_dump_json(exclude_none=True), 1) == event


def test_unknown_values_are_omitted(tmp_path):
    journal = Journal(tmp_path)
    journal.write(Phase(phase="load", iteration=0))
    journal.close()
    line = json.loads((tmp_path / JOURNAL_FILE).read_text())
    assert "eta_seconds" not in line
    assert line["seq"] == 1
