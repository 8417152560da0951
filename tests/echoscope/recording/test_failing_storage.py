"""Failures of disks and folders, in every call of the recorder: training goes on, and the journal stays readable."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import echoscope
from echoscope.recording import journal_writer
from echoscope.recording.journal_writer import JournalWriter
from tests.echoscope.recording.caught_warnings import caught_warnings
from tests.webapp.observed_images import image_file
from trainer.journal.reader import read
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run


def train(run: echoscope.Recorder, iteration: int) -> None:
    """Every call of the recorder."""
    for attempt in run.group(2, prompt="p", iteration=iteration):
        with attempt:
            attempt.turn(state="s", response="r", reward=1.0, images=image_file())
            attempt.finish(success=True)
    with run.trajectory(prompt="p", iteration=iteration) as single:
        single.turn(state="s", response="r")
    run.log({"loss": 1.0}, iteration=iteration, note="n")
    run.notice("half way")
    run.evaluation("S", iteration=iteration, prompts=1, trajectories=1, successes=1)


EVENTS_OF_TRAIN = 1 + 2 * 2 + 1 + 2 + 1 + 1 + 1


def is_full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def is_full_after_half_a_line(descriptor: int, data: bytes) -> int:
    if len(data) < 20:
        raise OSError(errno.ENOSPC, "No space left on device")
    return WRITE(descriptor, bytes(data)[: len(data) // 2])


WRITE = os.write


@pytest.mark.django_db
@pytest.mark.parametrize("write", [is_full, is_full_after_half_a_line])
def test_a_full_disk_costs_what_was_recorded_meanwhile_and_nothing_else(
    write: Callable[..., Any], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = echoscope.init("Full", folder=tmp_path, iterations=3)
    train(recorder, 1)
    begun, open_attempt = recorder.trajectory(prompt="p", iteration=2), recorder.trajectory(prompt="p", iteration=2)
    begun.turn(state="before", response="r")
    with monkeypatch.context() as full, caught_warnings() as messages:
        full.setattr(journal_writer.os, "write", write)
        train(recorder, 2)
        open_attempt.finish(success=True)
        begun.turn(state="lost", response="r")
        recorder.finish()
    (message,) = messages
    assert message.startswith(
        "group() recorded nothing: [Errno 28] No space left on device. Training goes on. Make room"
    )
    begun.turn(state="after", response="r")
    begun.finish(success=True)
    train(recorder, 3)
    recorder.finish()
    JournalTailer(run, tmp_path).drain()
    run.refresh_from_db()
    events: list[Any] = list(read(tmp_path / "journal.jsonl"))
    assert (run.journal_error, run.seq) == ("", len(events))
    states = [event.state for event in events if event.type == "turn" and event.trajectory == begun.key]
    assert states == ["before", "after"]
    notices = [event.message for event in events if event.type == "notice"]
    assert notices[1] == "8 calls were not recorded before this, as the journal could not be written."
    assert events[-1].type == "run_finished"


def test_a_folder_that_is_removed_is_named_once_and_no_other_one_is_written(tmp_path: Path) -> None:
    run = echoscope.init("Removed", folder=tmp_path / "run")
    attempt = run.trajectory(prompt="p", iteration=1)
    shutil.rmtree(tmp_path / "run")
    with caught_warnings() as messages:
        attempt.turn(state="s", response="r")
        train(run, 1)
        run.finish()
    (message,) = messages
    assert message.startswith("turn() recorded nothing: [Errno 2] the journal was removed: ")
    assert not (tmp_path / "run" / "journal.jsonl").exists()


NO_JOURNALS = {
    "not a journal": "mine\n",
    "not an event": "[1]\n",
    "too deep": "[" * 100_000 + "\n",
    "no time": f'{{"seq": 1, "time": 1{"0" * 400}, "type": "run_started"}}\n',
    "no extra": '{"seq": 1, "time": 1.0, "type": "notice", "extra": [1]}\n',
}


@pytest.mark.parametrize("what", ["file in the way", "no permission", *NO_JOURNALS])
def test_a_run_that_cannot_begin_is_named_once_and_recorded_nowhere(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    if what == "file in the way":
        folder.write_text("mine")
    elif what == "no permission":

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))

        monkeypatch.setattr(Path, "mkdir", refuse)
    else:
        folder.mkdir()
        (folder / "journal.jsonl").write_text(NO_JOURNALS[what])
    with caught_warnings() as messages:
        run = echoscope.init("Nowhere", folder=folder, config={"lr": 1})
        train(run, 1)
        run.finish()
    (message,) = messages
    assert message.startswith(f"Nothing of this run is recorded: the journal in {folder} cannot be written (")
    assert message.endswith("Repair the folder, or pass another folder= to echoscope.init.")
    assert run.folder == folder
    if what in NO_JOURNALS:
        assert (folder / "journal.jsonl").read_text() == NO_JOURNALS[what], "it is left as it was"


def test_lines_of_another_program_after_the_first_are_passed_over(tmp_path: Path) -> None:
    train(echoscope.init("First", folder=tmp_path), 1)
    lines = [*NO_JOURNALS.values(), '{"type": "turn", "trajectory": [1]}\n', '{"type": "metrics", "iteration": {}}\n']
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.writelines(lines)
    with caught_warnings() as messages:
        run = echoscope.init("Second", folder=tmp_path)
        train(run, 2)
        run.finish()
    assert [message.partition(":")[0] for message in messages] == [f"There is a run in {tmp_path} already"]
    assert '"run_finished"' in (tmp_path / "journal.jsonl").read_text().splitlines()[-1]


def test_a_run_whose_first_line_cannot_be_written_is_recorded_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full, caught_warnings() as messages:
        full.setattr(journal_writer.os, "write", is_full)
        run = echoscope.init("Full", folder=tmp_path)
    with caught_warnings() as later:
        train(run, 1)
    assert (len(messages), later) == (1, [])
    assert "No space left on device" in messages[0]
    assert (tmp_path / "journal.jsonl").read_bytes() == b""


def test_a_journal_that_cannot_be_locked_is_named_once_and_a_closed_one_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    run = echoscope.init("Locked", folder=tmp_path)
    with monkeypatch.context() as locked, caught_warnings() as messages:
        locked.setattr(journal_writer.fcntl, "flock", refuse)
        train(run, 1)
    assert [message.partition(". ")[0] for message in messages] == [
        "group() recorded nothing: [Errno 37] No locks available"
    ]
    run._writer._file.close()
    with caught_warnings() as messages:
        train(run, 2)
    assert messages == [], "it is opened again"
    assert len(list(read(tmp_path / JournalWriter.FILE))) == 2 + EVENTS_OF_TRAIN


def test_images_that_cannot_be_written_leave_their_turns(tmp_path: Path) -> None:
    run = echoscope.init("Images", folder=tmp_path)
    (tmp_path / "images").write_text("in the way")
    with caught_warnings() as messages:
        train(run, 1)
    assert [message.partition(": ")[0] for message in messages] == ["The images of a turn are not recorded"]
    assert len([event for event in read(tmp_path / JournalWriter.FILE) if event.type == "turn"]) == 3
