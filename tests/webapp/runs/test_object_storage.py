"""Files of a run are uploaded to object storage and restored where missing, without loss or duplicates."""

from __future__ import annotations

import io
import shutil
import tarfile
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import Storage, storages
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.page_requests import Visitors, who
from tests.webapp.worker.test_supervisor import INTERVALS, Watch, act, assert_complete, fresh, read_journal, take
from trainer.journal import events
from trainer.journal.protocol import JOURNAL_FILE
from webapp.core import env
from webapp.runs import actions, object_storage
from webapp.runs.actions import do_request
from webapp.runs.models import Run
from webapp.runs.object_storage import Manifest
from webapp.worker.files import checkpoint_sync
from webapp.worker.supervisor import supervise

__all__ = ["who"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def storage(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A folder as object storage, through the same settings and calls."""
    monkeypatch.setattr(checkpoint_sync, "RETRY_INTERVAL", 0.05)
    monkeypatch.setenv("ECHOSCOPE_STORAGE", f"file://{tmp_path}/far%20away")
    settings.STORAGES = settings.STORAGES | {"runs": env.storage("ECHOSCOPE_STORAGE")}
    return storages["runs"]


def another_machine(run: Run) -> None:
    """A disk without files of the run."""
    shutil.rmtree(run.folder)


def test_without_object_storage_nothing_is_copied(run: Run) -> None:
    assert object_storage.configured_storage() is None
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"
    assert (fresh(run).copy, (run.folder / object_storage.TOKEN).exists()) == ("", False)


def test_a_run_resumes_on_another_disk(run: Run, storage: Storage) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.kept_iteration >= 1)
    do_request(run, "stop")
    assert watch.ended() == "stopped"
    before = fresh(run)
    written = (run.folder / JOURNAL_FILE).read_bytes()
    newest = max(int(folder.name) for folder in (run.folder / "checkpoints").iterdir())
    assert before.kept_iteration == newest, "the last checkpoint is copied before the run is released"
    another_machine(run)
    do_request(run, "resume")
    again = Watch(run, "long")
    again.until(lambda now: now.attempt == 2 and now.iteration > before.iteration)
    do_request(run, "stop")
    assert again.ended() == "stopped"
    assert (run.folder / JOURNAL_FILE).read_bytes().startswith(written)
    assert fresh(run).copy != before.copy
    assert_complete(fresh(run))


def test_events_after_the_last_copy_are_restored_from_the_database(
    run: Run, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.kept_iteration >= 1)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(object_storage, "copy", unreachable)
        lost = orphaned(run, watch)
    manifest = object_storage.read_manifest(storage, run.slug)
    assert manifest is not None
    assert manifest.journal[-1] < lost.journal_offset
    another_machine(run)
    actions.do_reap(timezone.now())
    again = Watch(run, "long")
    again.until(lambda now: now.attempt == 2 and now.iteration > lost.iteration)
    do_request(run, "stop")
    assert again.ended() == "stopped"
    assert [event.seq for event in read_journal(run)] == list(range(1, fresh(run).seq + 1))
    assert not [event for event in read_journal(run) if isinstance(event, events.Notice)], "every line was known"
    assert_complete(fresh(run))


def unreachable(*arguments: object) -> Manifest:
    raise ConnectionError("the storage is out of reach")


def orphaned(run: Run, watch: Watch) -> Run:
    """The run after two more iterations and the loss of its worker."""
    newest = fresh(run).iteration
    watch.until(lambda now: now.iteration > newest + 1)
    Run.objects.filter(pk=run.pk).update(lease="somebody else", lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert watch.ended() == "lease lost", "so there is no last copy"
    return fresh(run)


def test_a_stale_folder_of_an_earlier_attempt_is_not_used(run: Run, storage: Storage) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.iteration >= 1)
    do_request(run, "stop")
    watch.ended()
    (run.folder / object_storage.TOKEN).write_text("of another copy")
    (run.folder / JOURNAL_FILE).write_bytes(b"what this machine thought\n")
    do_request(run, "resume")
    again = Watch(run, "long")
    again.until(lambda now: now.attempt == 2 and now.iteration >= 2)
    do_request(run, "stop")
    again.ended()
    assert_complete(fresh(run))


def test_what_an_earlier_supervisor_reads_after_the_claim_is_not_read_again(run: Run, storage: Storage) -> None:
    assert supervise(take(run), command=act("crash"), intervals=INTERVALS) == "failed"
    read = fresh(run)
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED, journal_offset=0, journal_tail="", seq=0)
    claimed = take(run)  # before the other one has read anything
    Run.objects.filter(pk=run.pk).update(
        journal_offset=read.journal_offset, journal_tail=read.journal_tail, seq=read.seq
    )
    assert supervise(claimed, command=act("train"), intervals=INTERVALS) == "finished"
    assert fresh(run).journal_error == ""
    assert_complete(fresh(run))


def test_a_storage_failure_is_reported_and_training_continues(run: Run, storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "far away").write_text("in the way")
    watch = Watch(run, "long")
    watch.until(lambda now: now.storage_error)
    assert "Error" in fresh(run).storage_error
    (tmp_path / "far away").unlink()
    watch.until(lambda now: now.kept_iteration >= 1 and not now.storage_error)
    do_request(run, "stop")
    assert watch.ended() == "stopped"


def test_a_failed_download_fails_the_run_with_a_reason_and_keeps_the_copy(run: Run, storage: Storage) -> None:
    assert supervise(take(run), command=act("killed once"), intervals=INTERVALS) == "queued"
    another_machine(run)
    name = f"{run.slug}/{object_storage.MANIFEST}"
    whole = storage.open(name).read()
    storage.delete(name)
    storage.save(name, io.BytesIO(b"{rubbish"))
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "failed"
    assert "cannot be fetched" in fresh(run).failure
    storage.delete(name)
    storage.save(name, io.BytesIO(whole))
    do_request(run, "resume")
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"
    assert_complete(fresh(run))


def test_log_journal_and_checkpoints_are_read_from_the_copy(run: Run, storage: Storage, who: Visitors) -> None:
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"
    address = f"/runs/{run.slug}"
    journal_here = (run.folder / JOURNAL_FILE).read_bytes()
    (run.folder / "log.txt").write_text("the loss falls\n")
    object_storage.copy(run.folder, storage, run.slug, object_storage.read_manifest(storage, run.slug) or Manifest())
    here = b"".join(who.owner.get(f"{address}/checkpoints/4.tar"))  # type: ignore[call-overload]
    another_machine(run)
    assert "the loss falls" in who.owner.get(f"{address}/log").content.decode()
    assert b"".join(who.owner.get(f"{address}/export/journal")) == journal_here  # type: ignore[call-overload]
    there = b"".join(who.owner.get(f"{address}/checkpoints/4.tar"))  # type: ignore[call-overload]
    for archive in (here, there):
        with tarfile.open(fileobj=io.BytesIO(archive)) as found:
            assert found.getnames() == [f"{run.slug}-000004/state.json", f"{run.slug}-000004/weights"]
            assert found.extractfile(found.getnames()[1]).read() == b"wwww"  # type: ignore[union-attr]
    assert who.owner.get(f"{address}/checkpoints/9.tar").status_code == 404
    assert who.outsider.get(f"{address}/checkpoints/4.tar").status_code == 404


def test_only_changes_are_copied_and_removed_files_deleted(run: Run, storage: Storage, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    old, new = folder / "checkpoints/000001", folder / "checkpoints/000002"
    for place in (old, new):
        place.mkdir(parents=True)
        (place / "weights").write_bytes(b"weights")
    (old / "state.json").write_text("{}")
    (folder / JOURNAL_FILE).write_bytes(b"one\ntw")
    (folder / "watch.json").write_text("{}")
    first = object_storage.copy(folder, storage, "r", Manifest())
    assert sorted(first.files) == ["checkpoints/000001/state.json", "checkpoints/000001/weights"], "no half checkpoints"
    assert first.journal == [4]
    kept = Path(storage.path("r/checkpoints/000001/weights")).stat().st_mtime_ns
    (new / "state.json").write_text("{}")
    (folder / JOURNAL_FILE).write_bytes(b"one\ntwo\n")
    second = object_storage.copy(folder, storage, "r", first)
    assert (second.checkpoints, second.journal) == ([1, 2], [4, 8])
    assert Path(storage.path("r/checkpoints/000001/weights")).stat().st_mtime_ns == kept
    shutil.rmtree(old)
    third = object_storage.copy(folder, storage, "r", second)
    assert (third.checkpoints, storage.exists("r/checkpoints/000001/weights")) == ([2], False)
    assert b"".join(object_storage.journal(storage, "r", third)) == b"one\ntwo\n"
    object_storage.delete(storage, "r")
    assert object_storage.read_manifest(storage, "r") is None
    assert not [file for file in Path(storage.path("r")).rglob("*") if file.is_file()]


@pytest.mark.parametrize("size", [7, 9, 40])
def test_a_journal_that_lost_its_copied_end_is_copied_again(storage: Storage, tmp_path: Path, size: int) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    journal = folder / JOURNAL_FILE
    journal.write_bytes(b"one\ntwo\nthree\n")
    first = object_storage.copy(folder, storage, "r", Manifest())
    journal.write_bytes((b"one\nTWO\n" + b"others\n" * 8)[:size])  # shorter or longer than before
    second = object_storage.copy(folder, storage, "r", first)
    whole = journal.read_bytes()
    assert b"".join(object_storage.journal(storage, "r", second)) == whole[: whole.rfind(b"\n") + 1]
    assert object_storage.read_manifest(storage, "r") == second


def test_deleting_a_run_deletes_its_copy(run: Run, storage: Storage) -> None:
    supervise(take(run), command=act("train"), intervals=INTERVALS)
    assert storage.exists(f"{run.slug}/{object_storage.MANIFEST}")
    actions.do_delete_run(fresh(run))
    assert not storage.exists(f"{run.slug}/{object_storage.MANIFEST}")


@pytest.mark.parametrize("address", ["gs://bucket", "s3://", "file://host/folder", "/folder", "s3://b?x=1"])
def test_an_invalid_storage_url_is_refused_with_a_reason(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_STORAGE", address)
    with pytest.raises(ValueError, match="must look like s3://bucket/prefix or file:///folder"):
        env.storage("ECHOSCOPE_STORAGE")


def test_a_bucket_is_found_by_url_and_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_STORAGE", "s3://runs/team/a/")
    monkeypatch.setenv("ECHOSCOPE_STORAGE_ENDPOINT", "http://minio:9000")
    found = env.storage("ECHOSCOPE_STORAGE")["OPTIONS"]
    assert (found["bucket_name"], found["location"], found["endpoint_url"]) == ("runs", "team/a", "http://minio:9000")
