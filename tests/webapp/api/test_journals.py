"""External runs sent over HTTP: whole or in chunks, plain or gzipped, valid or not."""

from __future__ import annotations

import gzip
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.conftest import People
from trainer.journal import events, reader
from webapp.api import uploads
from webapp.api.models import SentJournal
from webapp.api.uploads import SENDER_TIMEOUT, do_finish_silent_imports
from webapp.core.streaming import release_connection
from webapp.ingest import tailer
from webapp.runs.actions import do_reap
from webapp.runs.models import Run
from webapp.trajectories.models import Turn


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """The journal of a finished run."""
    return journal_builder.write(tmp_path, *journal_builder.whole_run(2)).read_bytes()


@pytest.fixture
def begun(tmp_path: Path) -> bytes:
    """The journal of a run in the middle of its second iteration, its last line incomplete."""
    folder = tmp_path / "begun"
    data = journal_builder.write(
        folder, journal_builder.started(), *journal_builder.iteration(1), *list(journal_builder.iteration(2))[:6]
    ).read_bytes()
    return data + b'{"type":"turn","se'


def imported(answer: object) -> Run:
    assert answer.status_code == 201, answer.content  # type: ignore[attr-defined]
    return Run.objects.get(slug=answer.json()["slug"])  # type: ignore[attr-defined]


def test_a_finished_run_is_imported_whole(callers: Callers, people: People, whole: bytes) -> None:
    answer = callers.owner.post("/api/runs/import?title=From+the+cluster", whole)
    run = imported(answer)
    assert (run.state, run.title, run.imported, run.author, run.team, run.failure) == (
        "finished",
        "From the cluster",
        True,
        people.owner,
        people.team,
        "",
    )
    turn_count = sum(
        isinstance(reader.parse_line(line, n), events.Turn) for n, line in enumerate(whole.splitlines(), 1)
    )
    assert Turn.objects.filter(trajectory__run=run).count() == turn_count == 20
    assert answer.json()["journal"] == {
        "offset": len(whole),
        "seq": len(whole.splitlines()),
        "growing": False,
        "problem": "",
        "left_out": [],
    }


@pytest.mark.parametrize("members", [1, 3])
def test_a_gzipped_journal_with_one_or_more_members_is_unpacked(callers: Callers, whole: bytes, members: int) -> None:
    size = -(-len(whole) // members)
    packed = b"".join(gzip.compress(whole[at : at + size]) for at in range(0, len(whole), size))
    run = imported(callers.owner.post("/api/runs/import", packed, Content_Type="application/gzip"))
    assert (run.journal_offset, run.state) == (len(whole), "finished")


def test_a_journal_can_be_uploaded_as_a_form_file(people: People, whole: bytes) -> None:
    browser = Client()
    browser.force_login(people.owner)
    run = imported(browser.post("/api/runs/import", {"file": SimpleUploadedFile("journal.jsonl", whole)}))
    assert run.state == "finished"
    assert "field “file”" in problem(browser.post("/api/runs/import", {"other": "x"}))["message"]


def test_a_run_pushed_in_chunks_equals_one_pushed_at_once(callers: Callers, whole: bytes) -> None:
    once = imported(callers.owner.post("/api/runs/import", whole))
    half = len(whole) // 2
    answer = callers.owner.post("/api/runs/import?growing=true", whole[:half])
    run = imported(answer)
    assert (run.state, run.end_reason) == ("running", "")
    offset = answer.json()["journal"]["offset"]
    assert 0 < offset <= half, "complete lines only"
    while offset < len(whole):
        path = f"/api/runs/{run.slug}/journal?offset={offset}"
        taken = callers.owner.call("PUT", path, whole[offset : offset + 5000])
        assert taken.status_code == 200, taken.content
        assert taken.json()["offset"] > offset
        offset = taken.json()["offset"]
    run.refresh_from_db()
    assert (run.state, run.seq, run.summary) == ("finished", once.seq, once.summary)
    assert Turn.objects.filter(trajectory__run=run).count() == Turn.objects.filter(trajectory__run=once).count()


def test_a_chunk_at_a_wrong_offset_is_refused_with_the_expected_one(callers: Callers, begun: bytes) -> None:
    answer = callers.owner.post("/api/runs/import?growing=true", begun)
    due = answer.json()["journal"]["offset"]
    assert due == begun.rindex(b"\n") + 1
    for offset in (0, due - 1, due + 100):
        path = f"/api/runs/{answer.json()['slug']}/journal?offset={offset}"
        refused = callers.owner.call("PUT", path, begun[:100])
        assert (refused.status_code, problem(refused)["code"]) == (409, "wrong_offset")
        assert problem(refused)["details"] == {"offset": due}


def test_the_same_idempotency_key_gives_the_same_run(callers: Callers, begun: bytes) -> None:
    first = callers.owner.post("/api/runs/import?growing=true", begun, Idempotency_Key="j1")
    again = callers.owner.post("/api/runs/import?growing=true", begun, Idempotency_Key="j1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["slug"] == again.json()["slug"]
    assert first.json()["journal"] == again.json()["journal"]
    other = callers.owner.post("/api/runs/import?growing=true&title=Other", begun, Idempotency_Key="j1")
    assert other.status_code == 409


def test_a_run_with_a_silent_sender_is_stopped_and_resumes_with_it(
    callers: Callers, whole: bytes, begun: bytes
) -> None:
    run = imported(callers.owner.post("/api/runs/import?growing=true", begun))
    now = timezone.now()
    assert do_finish_silent_imports(now) == 0
    do_reap(now + timedelta(days=1))
    run.refresh_from_db()
    assert run.state == "running", "no worker is looked for"
    assert do_finish_silent_imports(now + SENDER_TIMEOUT + timedelta(minutes=1)) == 1
    run.refresh_from_db()
    assert (run.state, run.ended_at is None) == ("stopped", False)
    back = callers.owner.call("PUT", f"/api/runs/{run.slug}/journal?offset={run.journal_offset}", b"")
    run.refresh_from_db()
    assert (back.json()["growing"], run.state, run.ended_at) == (True, "running", None)


def test_the_final_chunk_ends_an_unfinished_run(callers: Callers, begun: bytes) -> None:
    run = imported(callers.owner.post("/api/runs/import?growing=true", begun))
    path = f"/api/runs/{run.slug}/journal?offset={run.journal_offset}&growing=false"
    assert callers.owner.call("PUT", path, b"").json()["growing"] is False
    run.refresh_from_db()
    assert run.state == "stopped"


def test_an_unreadable_line_stops_the_import_with_a_reason_and_can_be_skipped(callers: Callers, whole: bytes) -> None:
    lines = whole.splitlines(keepends=True)
    broken = b"".join([*lines[:-3], b"?\n", *lines[-2:]])
    answer = callers.owner.post("/api/runs/import", broken)
    run = imported(answer)
    journal_state = answer.json()["journal"]
    assert (run.state, journal_state["seq"]) == ("stopped", len(lines) - 3)
    assert f"line {len(lines) - 2} is not an event" in journal_state["problem"]
    assert "manage.py" not in journal_state["problem"], "whoever sends journals has no shell on the server"
    path = f"/api/runs/{run.slug}/journal?offset={journal_state['offset']}&growing=false"
    stuck = callers.owner.call("PUT", path, broken[journal_state["offset"] :])
    assert (stuck.status_code, problem(stuck)["details"]) == (422, {"offset": journal_state["offset"]})
    gone_on = callers.owner.call("PUT", f"{path}&skip_bad_lines=true", broken[journal_state["offset"] :])
    state = gone_on.json()
    assert [reason.partition(":")[0] for reason in state.pop("left_out")] == [f"line {len(lines) - 2} is not an event"]
    assert state == {"offset": len(broken), "seq": len(lines), "growing": False, "problem": ""}
    run.refresh_from_db()
    assert run.state == "finished"


def test_data_beyond_the_limit_is_refused_and_earlier_data_kept(
    callers: Callers, whole: bytes, settings: Settings
) -> None:
    settings.ECHOSCOPE_UPLOAD_MB = 1000 / 2**20
    bomb = gzip.compress(whole + b" " * 50_000_000)
    answer = callers.owner.post("/api/runs/import", bomb)
    assert (answer.status_code, problem(answer)["code"]) == (413, "too_large")
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "does not begin with run_started"),
        (b"no journal\n", "line 1 is not an event"),
        (b'{"type":"notice","seq":1,"time":0,"level":"info","message":"a"}\n', "does not begin with run_started"),
        (b"\x1f\x8bnot gzip at all", "gzip stream is damaged"),
        (b'{"type":"run_started","seq":1', "does not begin with run_started"),
    ],
)
def test_a_file_that_is_not_a_journal_is_reported_and_leaves_no_run(callers: Callers, body: bytes, words: str) -> None:
    answer = callers.owner.post("/api/runs/import", body)
    assert (answer.status_code, words in problem(answer)["message"]) == (422, True), answer.content
    assert not Run.objects.exists()


def start_with(tmp_path: Path, **changes: object) -> bytes:
    event = journal_builder.started().model_copy(update=changes)
    return journal_builder.write(tmp_path / "odd", event).read_bytes()


def test_runs_with_settings_of_another_trainer_can_be_viewed(callers: Callers, tmp_path: Path) -> None:
    odd = {"iterations": 4, "invented": {"later": 1}, "environment": {"name": "TheirOwn", "settings": {"size": 3}}}
    run = imported(callers.owner.post("/api/runs/import", start_with(tmp_path, config=odd)))
    assert (run.environment, run.recorded) == ("TheirOwn", odd)
    browser = Client()
    browser.force_login(run.author)  # type: ignore[arg-type]
    assert browser.get(f"/runs/{run.slug}/").status_code == 200


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config": {"rollout": 5}}, "rollout"),
        ({"config": {"rollout": {"groups": "many"}}}, "rollout.groups must be a whole number"),
        ({"config": {"environment": {"name": ["Sokoban"]}}}, "environment.name"),
        ({"iterations": 2**40}, "plans 1099511627776 iterations"),
        ({"iterations": -1}, "plans -1 iterations"),
        ({"title": "a\0b"}, "NUL"),
        ({"config": {"invented": "\ud800"}}, "cannot be stored"),
    ],
)
def test_an_undisplayable_run_start_is_refused(
    callers: Callers, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    if "invented" in str(changes):  # JSON can spell it, the writer cannot
        data = start_with(tmp_path, config={"invented": "SIGN"}).replace(b"SIGN", b"\\ud800")
    else:
        data = start_with(tmp_path, **changes)
    answer = callers.owner.post("/api/runs/import", data)
    assert answer.status_code == 422, answer.content
    assert not Run.objects.exists()
    if "invented" not in str(changes):
        assert words in problem(answer)["message"]


def test_only_external_runs_accept_chunks_and_they_cannot_be_controlled(
    callers: Callers, run: Run, begun: bytes
) -> None:
    answer = callers.owner.call("PUT", f"/api/runs/{run.slug}/journal?offset=0", begun)
    assert (answer.status_code, problem(answer)["code"]) == (409, "not_imported")
    far = imported(callers.owner.post("/api/runs/import?growing=true", begun))
    for action in ("pause", "stop", "cancel", "resume"):
        refused = callers.owner.post(f"/api/runs/{far.slug}/control", {"action": action})
        assert (refused.status_code, "trained elsewhere" in problem(refused)["message"]) == (409, True)
    far.refresh_from_db()
    assert (far.state, far.requested) == ("running", "")


def test_a_body_in_small_pieces_is_read_to_its_end(whole: bytes) -> None:
    request = RequestFactory().post("/", whole, content_type="application/x-ndjson")
    request._stream = BytesIO(whole)  # type: ignore[attr-defined]
    assert b"".join(uploads.pieces(request, len(whole))) == whole


def test_journal_state_is_readable_by_readers_of_the_run(callers: Callers, run: Run) -> None:
    assert callers.viewer.get(f"/api/runs/{run.slug}/journal").json() == {
        "offset": 0,
        "seq": 0,
        "growing": False,
        "problem": "",
        "left_out": [],
    }
    assert not SentJournal.objects.exists()


def test_a_large_import_is_answered_after_a_while_and_continued_at_its_offset(
    callers: Callers, whole: bytes, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_IMPORT_SECONDS = 0  # one batch a request
    monkeypatch.setattr(tailer, "BATCH_BYTES", len(whole) // 4)
    monkeypatch.setattr(uploads, "PIECE", len(whole) // 4)
    answer = callers.owner.post("/api/runs/import", whole)
    run = imported(answer)
    offset = answer.json()["journal"]["offset"]
    assert 0 < offset < len(whole)
    assert answer.json()["journal"]["growing"]
    assert run.state == Run.State.RUNNING
    requests = 0
    while offset < len(whole):
        path = f"/api/runs/{run.slug}/journal?offset={offset}&growing=false"
        piece = callers.owner.call("PUT", path, whole[offset:]).json()
        assert piece["offset"] > offset, "every request makes progress"
        offset, requests = piece["offset"], requests + 1
    assert requests >= 3
    run.refresh_from_db()
    assert (run.state, run.iteration, run.seq) == (Run.State.FINISHED, 2, whole.count(b"\n"))


@pytest.mark.django_db(transaction=True)
def test_an_import_releases_the_database_connection_between_batches(
    callers: Callers, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailer, "BATCH_BYTES", len(whole) // 4)
    monkeypatch.setattr(uploads, "PIECE", len(whole) // 4)
    released: list[bool] = []

    def release() -> None:
        release_connection()
        released.append(connection.connection is None)

    monkeypatch.setattr(uploads, "release_connection", release)
    imported(callers.owner.post("/api/runs/import", whole))
    assert len(released) >= 3
    assert all(released)
