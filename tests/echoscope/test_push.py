"""Journals of runs trained elsewhere, sent to a real site: once, again, while they grow, and with failures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from echoscope import journal as sending
from echoscope.client import Client
from echoscope.errors import EchoscopeError
from echoscope.image_upload import ImageUpload, ignore
from tests.webapp import journal_builder
from trainer.journal import events
from webapp.runs.models import Run
from webapp.trajectories.models import Turn


def first() -> list[events.Event]:
    return [journal_builder.started(), *journal_builder.iteration(1)]


def second() -> list[events.Event]:
    return list(journal_builder.iteration(2))


def end() -> list[events.Event]:
    return [events.RunFinished(reason="completed", iteration=2, message="Done.")]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short journal takes several requests."""
    monkeypatch.setattr(sending, "CHUNK_BYTES", 4000)


def test_a_journal_is_sent_whole_and_a_second_push_adds_new_lines_only(client: Client, tmp_path: Path) -> None:
    path = journal_builder.write(tmp_path, *first())
    run = client.push_journal(tmp_path, title="Cluster")
    assert (run.title, run.state, run.journal.offset) == ("Cluster", "stopped", path.stat().st_size)
    journal_builder.write(tmp_path, *second(), *end())
    again = client.push_journal(path)
    assert (again.slug, again.state, again.journal.offset) == (run.slug, "finished", path.stat().st_size)
    assert Turn.objects.filter(trajectory__run__slug=run.slug).count() == 16
    assert client.push_journal(path).slug == run.slug, "nothing new changes nothing"
    assert Run.objects.count() == 1


def followed(live_server: LiveServer, secret: str, steps: list[Callable[[], object]]) -> Client:
    """A client that performs the next step at each wait."""
    return Client(live_server.url, secret, sleep=lambda seconds: steps.pop(0)())  # type: ignore[arg-type]


def test_a_growing_journal_is_followed_to_the_end_of_its_run(
    live_server: LiveServer, secret: str, client: Client, tmp_path: Path
) -> None:
    path = journal_builder.write(tmp_path)  # empty as yet
    states: list[str] = []

    def see() -> None:
        states.append(next(client.runs()).state)

    steps: list[Callable[[], object]] = [
        lambda: journal_builder.write(tmp_path, *first()),
        see,
        lambda: journal_builder.write(tmp_path, *second()),
        see,
        lambda: journal_builder.write(tmp_path, *end()),
    ]
    run = followed(live_server, secret, steps).push_journal(tmp_path, follow=True)
    assert (run.state, run.iteration, states) == ("finished", 2, ["running", "running"])
    assert not steps, "it waited for everything"
    assert run.journal.offset == path.stat().st_size


def test_ctrl_c_ends_following_and_marks_the_run_stopped(
    live_server: LiveServer, secret: str, client: Client, tmp_path: Path
) -> None:
    journal_builder.write(tmp_path, *first())

    def interrupt() -> None:
        assert next(client.runs()).state == "running"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        followed(live_server, secret, [interrupt]).push_journal(tmp_path, follow=True)
    assert next(client.runs()).state == "stopped"


def test_a_sender_that_is_behind_continues_at_the_offset_of_the_site(client: Client, tmp_path: Path) -> None:
    path = journal_builder.write(tmp_path, *first(), *second(), *end())
    lines = path.read_bytes().splitlines(keepends=True)
    early = b"".join(lines[:3])
    known = client.import_journal(early, packed=False, key="k", growing=True)
    client.append_journal(known.slug, len(early), lines[3], packed=False)
    ahead = client.run(known.slug)
    sender = sending._Sender(client, path, known, False, ImageUpload(client, tmp_path, known.slug, None), ignore, None)
    sender.send(False, lambda seconds: None)
    sender.announce_end()
    assert ahead.journal.offset > known.journal.offset
    assert client.run(known.slug).journal.offset == path.stat().st_size


def test_another_journal_in_the_same_folder_becomes_another_run(client: Client, tmp_path: Path) -> None:
    path = journal_builder.write(tmp_path, *first())
    before = client.push_journal(tmp_path)
    path.unlink()
    journal_builder.write(
        tmp_path, journal_builder.started().model_copy(update={"title": "Another"}), *journal_builder.iteration(1)
    )
    after = client.push_journal(tmp_path)
    assert (after.slug != before.slug, after.title) == (True, "Another")
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(EchoscopeError, match="it is another journal"):
        client.push_journal(tmp_path, run=after.slug)


def test_an_unreadable_line_is_reported_and_can_be_skipped(client: Client, tmp_path: Path) -> None:
    path = journal_builder.write(tmp_path, *first(), *second())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-1], b"?\n"]))
    with pytest.raises(EchoscopeError, match=f"line {len(lines)} is not an event"):
        client.push_journal(tmp_path)
    reasons: list[str] = []
    run = client.push_journal(tmp_path, skip_bad_lines=True, report=reasons.append)
    assert [reason.partition(" is not an event")[0] for reason in reasons] == [
        f"The site left out an event: line {len(lines)}"
    ]
    assert (run.journal.seq, run.journal.problem, Run.objects.count()) == (len(lines), "", 1)


def test_a_turn_that_is_too_long_is_named_though_the_rest_is_sent(client: Client, tmp_path: Path) -> None:
    path = journal_builder.write(tmp_path, *first())
    long = journal_builder.group(2, 0, ["long"]), journal_builder.turn("long", 0, thought="ж" * 600_000)
    journal_builder.write(tmp_path, *long, *end())
    size = len(path.read_bytes().splitlines(keepends=True)[-2])
    reasons: list[str] = []
    run = client.push_journal(tmp_path, report=reasons.append)
    assert (run.state, run.journal.problem) == ("finished", "")
    (reason,) = reasons
    assert f"has {size:,} bytes, and at most 1,048,576 are read" in reason


def test_a_file_that_is_no_journal_is_reported(client: Client, tmp_path: Path) -> None:
    with pytest.raises(EchoscopeError, match=r"no journal\.jsonl"):
        client.push_journal(tmp_path)
    (tmp_path / "journal.jsonl").write_text("hello\n")
    with pytest.raises(EchoscopeError, match="cannot be imported"):
        client.push_journal(tmp_path)
    assert not Run.objects.exists()
