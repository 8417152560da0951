"""A journal that lost its end, was replaced or is gone: detected, and everything shown rebuilt from what is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.files.storage import storages
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.ingest.test_tailer import events_of, facts
from trainer.journal import events as journal
from trainer.journal.protocol import JOURNAL_FILE
from webapp.annotations.actions import do_star
from webapp.core import env
from webapp.ingest.rebuild import RebuildRefused, do_rebuild, do_rebuild_ended, do_requested_rebuilds
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import snapshot
from webapp.runs import object_storage
from webapp.runs.models import Checkpoint, Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db

LAST_LINES = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def whole(run: Run, folder: Path) -> bytes:
    """The journal of a run of two iterations that was read to its end."""
    path = journal_builder.write(folder, *journal_builder.whole_run(2))
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    return path.read_bytes()


def test_a_cut_before_the_first_attempt_began_loses_nothing(run: Run, folder: Path) -> None:
    path = journal_builder.write(folder, journal.Phase(phase="load", iteration=0), *journal_builder.whole_run(1))
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    first, second, *_ = path.read_bytes().splitlines(keepends=True)

    def is_same(data: bytes) -> bool:
        path.write_bytes(data)
        tailer = JournalTailer(run, folder)
        assert tailer.drain() == 0
        assert tailer.mismatch is not None
        return tailer.mismatch.same_run

    assert not is_same(first), "a checkpoint was saved later: the file is not what a power cut leaves"
    Checkpoint.objects.filter(run=run).delete()
    for size in (0, 5, len(first), len(first) + 1, len(first) + len(second) - 1):
        assert is_same((first + second)[:size]), size
    assert not is_same(first.replace(b'"load"', b'"rollout"')), "not what was read"
    path.write_bytes((first + second)[:-1])
    rebuilt = do_rebuild(run, folder)
    assert (rebuilt.seq, rebuilt.journal_error, rebuilt.attempt) == (1, "", 0)


def test_every_cut_of_the_last_lines_is_detected(run: Run, folder: Path, whole: bytes) -> None:
    """At each byte around the ends of lines, and at some inside of them."""
    path, lines = folder / JOURNAL_FILE, whole.splitlines(keepends=True)
    ends = [len(b"".join(lines[: len(lines) - lost])) for lost in range(LAST_LINES + 1)]
    near = {end + offset for end in ends for offset in range(-3, 4)}
    for size in sorted(near.union(range(ends[-1], ends[0], 23)) & set(range(ends[-1], len(whole)))):
        path.write_bytes(whole[:size])
        tailer = JournalTailer(run, folder)
        assert tailer.step() == 0
        assert tailer.mismatch is not None, size
        assert tailer.mismatch.same_run
    path.write_bytes(whole)
    tailer = JournalTailer(run, folder)
    assert tailer.step() == 0
    assert tailer.mismatch is None


def expected(run: Run, folder: Path) -> dict[str, object]:
    """The tables of a run that read this journal for the first time."""
    other = Run.objects.create(
        team=run.team, title="Other", config=run.config, environment=run.environment, iterations=run.iterations
    )
    JournalTailer(other, folder).drain()
    return facts(other)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.05, 1.0))
def test_rebuilt_tables_equal_a_first_reading(run: Run, folder: Path, whole: bytes, share: float) -> None:
    (folder / JOURNAL_FILE).write_bytes(whole[: int(share * len(whole))])
    do_rebuild(run, folder)
    assert facts(run) == expected(run, folder)
    run.refresh_from_db()
    assert [event["seq"] for event in events_of(run)] == list(range(1, run.seq + 1))
    assert snapshot(run)["seq"] == run.seq


@pytest.mark.parametrize("lost", range(1, LAST_LINES + 1))
def test_training_continues_after_a_rebuild(run: Run, folder: Path, whole: bytes, lost: int) -> None:
    lines = whole.splitlines(keepends=True)
    (folder / JOURNAL_FILE).write_bytes(b"".join(lines[:-lost]) + lines[-lost][:7])
    do_rebuild(run, folder)
    journal_builder.write(
        folder,
        journal_builder.started(2, from_iteration=1, evaluated=0),
        *journal_builder.iteration(2),
        journal.RunFinished(reason="completed", iteration=2, message="Done.", summary={}),
    )
    run.refresh_from_db()
    JournalTailer(run, folder).drain()
    assert facts(run) == expected(run, folder)
    assert run.end_reason == "completed"


def test_permalinks_shares_and_stars_survive(run: Run, folder: Path, whole: bytes) -> None:
    slugs = dict(Trajectory.objects.filter(run=run).values_list("key", "slug"))
    keys = sorted(slugs, key=lambda key: Trajectory.objects.get(run=run, key=key).last_seq)
    early, late, starred = (Trajectory.objects.get(run=run, key=key) for key in (keys[0], keys[-1], keys[-2]))
    link = do_share_trajectory(early, run.author)
    lost_link = do_share_trajectory(late, run.author)
    do_star(starred, run.author)
    turns, played = late.turns.count(), list(early.turns.values_list("number", flat=True))
    lines = whole.splitlines(keepends=True)
    (folder / JOURNAL_FILE).write_bytes(b"".join(lines[: len(lines) // 2]))
    do_rebuild(run, folder)
    kept = dict(Trajectory.objects.filter(run=run, superseded=False).values_list("key", "slug"))
    assert kept
    assert kept == {key: slugs[key] for key in kept}
    link.refresh_from_db()
    assert link.trajectory_id == early.pk
    assert list(early.turns.values_list("number", flat=True)) == played, "read again, not added"
    lost_link.refresh_from_db()
    late.refresh_from_db()
    assert late.superseded, "its events are gone, its share still shows it"
    assert late.turns.count() == turns
    assert Trajectory.objects.filter(pk=starred.pk, stars__user=run.author).exists()
    gone = set(slugs) - set(kept) - {late.key, starred.key}
    assert not Trajectory.objects.filter(run=run, key__in=gone).exists()


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def replace(folder: Path) -> None:
    """Another run of the same settings in its place, longer than the one before."""
    remove(folder)
    journal_builder.write(folder, *journal_builder.whole_run(4))


@pytest.mark.parametrize(("harm", "words"), [(remove, "is gone"), (replace, "does not hold what was read before")])
def test_another_journal_is_not_read(
    run: Run, folder: Path, whole: bytes, harm: Callable[[Path], None], words: str
) -> None:
    before = facts(run)
    harm(folder)
    tailer = JournalTailer(run, folder)
    assert tailer.drain() == 0
    assert tailer.mismatch is not None
    assert not tailer.mismatch.same_run
    run.refresh_from_db()
    assert words in run.journal_error
    assert f"rebuild_run {folder.name}" in run.journal_error
    run.journal_error = ""
    run.save()
    assert facts(run) == before, "everything shown stays"


def test_a_journal_of_an_earlier_version_without_a_recorded_tail_is_read_on(run: Run, folder: Path) -> None:
    events = list(journal_builder.whole_run(1))
    journal_builder.write(folder, *events[:8])
    JournalTailer(run, folder).drain()
    Run.objects.filter(pk=run.pk).update(journal_tail="")
    run.refresh_from_db()
    journal_builder.write(folder, *events[8:])
    assert JournalTailer(run, folder).drain() == len(events) - 8


def test_the_command_rebuilds_and_settles_the_state(run: Run, folder: Path, whole: bytes) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, failure="its journal was not read to the end")
    out = StringIO()
    call_command("rebuild_run", run.slug, str(folder), stdout=out)
    run.refresh_from_db()
    assert f"{run.seq} events read" in out.getvalue()
    assert (run.state, run.failure, run.rebuilds) == ("finished", "", 1)


def test_the_command_reports_what_is_missing(run: Run, folder: Path) -> None:
    for arguments, words in (
        (["nothing"], "There is no run nothing"),
        ([run.slug, "/nowhere"], "no journal.jsonl in /nowhere"),
        ([run.slug], "no copy in storage"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command("rebuild_run", *arguments)


def test_the_button_rebuilds_through_the_clock(client: Client, run: Run) -> None:
    journal_builder.write(run.folder, *journal_builder.whole_run(1))
    JournalTailer(run).drain()
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED, journal_error="It cannot be read on.")
    client.force_login(run.author)
    page = client.get(reverse("run", args=[run.slug])).content.decode()
    assert reverse("run-rebuild", args=[run.slug]) in page
    assert client.post(reverse("run-rebuild", args=[run.slug])).status_code == 302
    assert do_requested_rebuilds() == 1
    run.refresh_from_db()
    assert (run.rebuild_requested, run.journal_error, run.rebuilds) == (False, "", 1)


def test_a_run_that_was_sent_with_images_is_not_emptied(client: Client, run: Run, whole: bytes) -> None:
    Run.objects.filter(pk=run.pk).update(imported=True, state=Run.State.STOPPED, journal_error="It cannot be read on.")
    run.refresh_from_db()
    (run.folder / "images").mkdir(parents=True)
    client.force_login(run.author)
    assert reverse("run-rebuild", args=[run.slug]) not in client.get(reverse("run", args=[run.slug])).content.decode()
    client.post(reverse("run-rebuild", args=[run.slug]))
    assert do_requested_rebuilds() == 0
    Run.objects.filter(pk=run.pk).update(rebuild_requested=True)
    assert do_requested_rebuilds() == 1, "a request of an earlier version"
    with pytest.raises(CommandError, match="There is no journal"):
        call_command("rebuild_run", run.slug)
    events, run = run.seq, Run.objects.get(pk=run.pk)
    assert (run.seq, run.rebuilds, run.trajectories.exists()) == (events, 0, True)


def test_a_run_in_training_is_not_rebuilt(client: Client, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    run.refresh_from_db()
    with pytest.raises(RebuildRefused, match="pause it first"):
        do_rebuild_ended(run)
    client.force_login(run.author)
    client.post(reverse("run-rebuild", args=[run.slug]))
    run.refresh_from_db()
    assert not run.rebuild_requested


def test_an_incomplete_copy_in_storage_changes_nothing(
    run: Run, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHOSCOPE_STORAGE", f"file://{tmp_path}/storage")
    settings.STORAGES = settings.STORAGES | {"runs": env.storage("ECHOSCOPE_STORAGE")}
    journal_builder.write(run.folder, *journal_builder.whole_run(1))
    JournalTailer(run).drain()
    object_storage.copy(run.folder, storages["runs"], run.slug, object_storage.Manifest())
    shutil.rmtree(run.folder)
    (part,) = (tmp_path / "storage" / run.slug / "journal").iterdir()
    part.write_bytes(part.read_bytes()[:-100])
    events = Run.objects.get(pk=run.pk).seq
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED, rebuild_requested=True, copy="a copy")
    assert do_requested_rebuilds() == 1
    assert do_requested_rebuilds() == 0, "the request is dropped, with its reason"
    run.refresh_from_db()
    assert (run.seq, run.rebuilds) == (events, 0)
    assert "storage cannot be read" in run.journal_error
