"""Backup of a running site by the bundled pg_dump, and its restoration elsewhere: all is equal, or nothing exists."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest
from django.conf import settings
from django.core.files.storage import storages
from django.core.management import CommandError, call_command
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tests.webapp.services.backup.small_site import (
    SmallSite,
    attach,
    create_database,
    create_small_site,
    file_contents,
    name_of_test_database,
    served,
    table_digests,
)
from trainer.journal.protocol import CHECKPOINT_STATE, JOURNAL_FILE
from webapp.core import env
from webapp.runs import object_storage
from webapp.runs.models import Run
from webapp.services import addresses
from webapp.services.backup import embedded_server
from webapp.services.backup.archive import MANIFEST, ArchiveReader, ArchiveWriter, BackupError
from webapp.services.backup.nightly import make_nightly_backup
from webapp.services.backup.run_folders import CopiedFolder, copy_folder
from webapp.services.backup.site_backup import DUMP, create_backup
from webapp.services.backup.site_restore import read_archive, restore_backup
from webapp.services.lock import Lock
from webapp.services.postgres import Postgres
from webapp.teams.models import User

KEY = "secret_key"
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True, scope="module")
def _embedded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DATABASE_URL")
        yield


@pytest.fixture(scope="module")
def site(
    postgres_server: Postgres,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SmallSite]:
    with django_db_blocker.unblock():
        url = create_database(postgres_server, "echoscope", name_of_test_database())
        home = tmp_path_factory.mktemp("site")
        attach(home, postgres_server)
        (home / KEY).write_text(settings.SECRET_KEY)
        with served(url, home):
            call_command("flush", interactive=False, verbosity=0)  # of rows that another test has left
        site = create_small_site(url, home)
        with served(url, home):
            Run.objects.update(data_folder="a" * 24)
        yield site


@pytest.fixture(scope="module")
def archive(site: SmallSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup during which other processes change the site, which is afterwards as before."""
    path = tmp_path_factory.mktemp("archive") / "site.zip"

    @contextmanager
    def write_meanwhile(server: Postgres, snapshot: str) -> Iterator[IO[bytes]]:
        with psycopg.connect(site.url, autocommit=True) as other:
            other.execute("UPDATE runs_run SET title = title || '!'")
            with embedded_server.dump(server, snapshot) as source:
                yield source
            other.execute("UPDATE runs_run SET title = trim('!' FROM title)")

    with pytest.MonkeyPatch.context() as patch, served(site.url, site.home):
        patch.setattr("webapp.services.backup.site_backup.dump", write_meanwhile)
        assert create_backup(path, site.home).warnings == []
    return path


@contextmanager
def opened(home: Path) -> Iterator[str]:
    """The database of a stopped site, which Django serves. Yields its URL."""
    with embedded_server.running(addresses.choose(home).postgres(home), home) as server, served(server.url(), home):
        yield server.url()


def rewritten(path: Path, target: Path, member: str, change: Callable[[bytes], bytes]) -> Path:
    """An undamaged archive with another member."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            copy.writestr(name, change(source.read(name)) if name == member else source.read(name))
    return target


def manage(home: Path, *words: str) -> str:
    output = io.StringIO()
    with override_settings(ECHOSCOPE_DATA_DIR=home):
        call_command(*words, stdout=output, stderr=output)
    return output.getvalue()


def test_a_restored_site_is_equal_and_its_pages_sessions_and_tokens_work(
    site: SmallSite, archive: Path, tmp_path: Path
) -> None:
    assert archive.stat().st_mode & 0o777 == 0o600
    home, again = tmp_path / "home", tmp_path / "again.zip"
    assert manage(home, "restore", str(archive)).startswith("Restored ")
    assert manage(home, "backup", str(again)).startswith(f"{again}: "), "of a stopped site"
    assert manage(home, "restore", "--check", str(again)).startswith(f"{again} is complete")
    assert ArchiveReader(again).manifest.runs == ArchiveReader(archive).manifest.runs
    assert (home / KEY).read_text() == settings.SECRET_KEY
    assert (home / KEY).stat().st_mode & 0o777 == 0o600
    assert file_contents(home / "runs") == file_contents(site.home / "runs")
    with opened(home) as url:
        assert set(Run.objects.values_list("data_folder", flat=True)) == {""}, "the files are in another data folder"
        Run.objects.update(data_folder="a" * 24)
        assert table_digests(url) == table_digests(site.url)
        restored = SmallSite(url, home, site.pages, site.session, site.api_token)
        assert restored.open_pages() == dict.fromkeys([*site.pages, "API"], 200)
        assert User.objects.create(username="later").pk > User.objects.exclude(username="later").latest("pk").pk
        newest = Run.objects.earliest("pk")  # those of the study wait in the queue
        assert (newest.folder / JOURNAL_FILE).stat().st_size == newest.journal_offset
    with pytest.raises(CommandError, match=r"has data of a site already, such as .*postgres\. Nothing was changed"):
        manage(home, "restore", str(archive))


def test_a_folder_is_copied_while_training_deletes_checkpoints_and_appends_to_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    for iteration in (1, 2):
        checkpoint = folder / f"checkpoints/{iteration:06d}"
        checkpoint.mkdir(parents=True)
        for name in ("learner.pt", CHECKPOINT_STATE):
            (checkpoint / name).write_text("{}")
    (folder / "checkpoints/000003.new").mkdir()
    (folder / "checkpoints/000003.new/learner.pt").write_text("half")
    (folder / JOURNAL_FILE).write_bytes(b'{"seq":1}\n')
    add_file = ArchiveWriter.add_file

    def train_meanwhile(archive: ArchiveWriter, name: str, file: IO[bytes], *, compress: bool = True) -> int:
        size = add_file(archive, name, file, compress=compress)
        if name == "runs/abc/checkpoints/000001/learner.pt":
            shutil.rmtree(folder / "checkpoints/000001")
            with (folder / JOURNAL_FILE).open("ab") as journal:
                journal.write(b'{"seq":2}\n')
        return size

    monkeypatch.setattr(ArchiveWriter, "add_file", train_meanwhile)
    with ArchiveWriter(tmp_path / "x.zip") as archive:
        copied = copy_folder(archive, folder, "abc")
        assert copied == CopiedFolder([2], 20, ["runs/abc/checkpoints/000001"], [])


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "another file"])
def test_a_damaged_archive_is_refused_before_anything_changes(damage: str, archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    middle = len(data) // 2
    broken = tmp_path / "broken.zip"
    contents = {
        "truncated": data[:middle],
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "empty": b"",
        "another file": b"-- PostgreSQL database dump\n",
    }
    broken.write_bytes(contents[damage])
    home = tmp_path / "home"
    with pytest.raises(BackupError, match=r"damaged or incomplete: .*Nothing was changed"):
        read_archive(broken, home)
    assert not home.exists()


def test_a_restoration_that_fails_half_way_leaves_nothing(archive: Path, tmp_path: Path) -> None:
    wrong = rewritten(archive, tmp_path / "wrong.zip", DUMP, lambda dump: dump[: len(dump) // 2])
    home = tmp_path / "home"
    with pytest.raises(BackupError, match="pg_restore failed: "):
        restore_backup(read_archive(wrong, home), home)
    assert {path.name for path in home.iterdir()} <= {"log", "runs", "running.lock"}
    assert list((home / "runs").iterdir()) == []


def test_a_killed_restoration_leaves_no_site_and_can_be_repeated(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, path = tmp_path / "home", tmp_path / "site.zip"
    with zipfile.ZipFile(archive) as source:
        manifest = json.loads(source.read(MANIFEST)) | {"stored": {"Nowhere": 1}, "variables": ["ECHOSCOPE_OTHER"]}
    rewritten(archive, path, MANIFEST, lambda _: json.dumps(manifest).encode())
    arguments = [sys.executable, "manage.py", "restore", str(path)]
    with subprocess.Popen(arguments, cwd=ROOT, env={**os.environ, "ECHOSCOPE_DATA_DIR": str(home)}) as process:
        while not (home / "postgres.restored" / "data").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert not (home / "postgres").exists()
    assert [entry.name for entry in (home / "runs").iterdir()] == [".restored"]
    monkeypatch.setenv("ECHOSCOPE_SECRET_KEY", "another")
    monkeypatch.setenv("ECHOSCOPE_STORAGE", f"file://{tmp_path}/bucket")
    bucket = settings.STORAGES | {"runs": env.storage("ECHOSCOPE_STORAGE")}
    with override_settings(ECHOSCOPE_DATA_DIR=home, SECRET_KEY="another", STORAGES=bucket):
        key, variables, stored = restore_backup(read_archive(path, home), home).warnings
    assert (home / "postgres").is_dir()
    assert ".restored" not in [entry.name for entry in (home / "runs").iterdir()]
    assert "users have to log in again" in key
    assert "ECHOSCOPE_OTHER" in variables
    assert stored == "Run Nowhere: its copy in object storage cannot be found."


def test_an_archive_of_a_newer_version_is_refused(archive: Path, tmp_path: Path) -> None:
    def changed(name: str, value: object) -> Path:
        def change(data: bytes) -> bytes:
            manifest: dict[str, Any] = json.loads(data)
            return json.dumps(manifest | {name: value}).encode()

        return rewritten(archive, tmp_path / f"{name}.zip", MANIFEST, change)

    home = tmp_path / "home"
    with pytest.raises(BackupError, match=r"no migration runs\.0999_later"):
        read_archive(changed("migrations", [["runs", "0999_later"]]), home)
    with pytest.raises(BackupError, match="newer version"):
        read_archive(changed("format", 3), home)
    assert not home.exists()


def test_a_running_site_or_one_with_runs_is_not_restored_over(archive: Path, tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    lock.take()
    with pytest.raises(BackupError, match="already running"):
        restore_backup(read_archive(archive, tmp_path), tmp_path)
    lock.release()
    (tmp_path / "runs" / "abc").mkdir(parents=True)
    with pytest.raises(BackupError, match=r"has data of a site already, such as .*runs/abc\. Nothing was changed"):
        read_archive(archive, tmp_path)


def test_an_external_database_is_backed_up_by_its_operator(
    archive: Path, site: SmallSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example.org/echoscope")
    with pytest.raises(CommandError, match=r"DATABASE_URL is set: back up that server with its own pg_dump"):
        manage(site.home, "backup", str(tmp_path / "site.zip"))
    with pytest.raises(CommandError, match=r"restored into the embedded server only\. Nothing was changed"):
        manage(tmp_path / "home", "restore", str(archive))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_file(site: SmallSite, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        with pytest.raises(BackupError, match=r"The disk is full: .*site\.zip was not written"):
            create_backup(tmp_path / "site.zip", site.home)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BackupError, match="there is nothing to back up"):
        create_backup(tmp_path / "site.zip", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_sent_has_no_journal_and_no_warning(site: SmallSite, tmp_path: Path) -> None:
    with served(site.url, site.home):
        run = Run.objects.earliest("pk")
        sent = Run.objects.create(team=run.team, title="Sent", config=run.config, imported=True, journal_offset=1000)
        lost = Run.objects.create(team=run.team, title="Lost", config=run.config, journal_offset=1000)
        try:
            assert {lost.slug in warning for warning in create_backup(tmp_path / "1.zip", site.home).warnings} == {True}
            for folder in (sent.folder, lost.folder):
                (folder / "images").mkdir(parents=True)
                (folder / "images" / "1.png").write_bytes(b"picture")
            (warning,) = create_backup(tmp_path / "2.zip", site.home).warnings
            assert warning.startswith(f"Run {lost.slug}: its journal has 0 bytes")
            with zipfile.ZipFile(tmp_path / "2.zip") as archive:
                assert archive.read(f"runs/{sent.slug}/images/1.png") == b"picture"
        finally:
            for one in (sent, lost):
                shutil.rmtree(one.folder)
                one.delete()


def test_copies_in_object_storage_are_listed(
    site: SmallSite, postgres_server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHOSCOPE_STORAGE", f"file://{tmp_path}/bucket")
    bucket = override_settings(STORAGES=settings.STORAGES | {"runs": env.storage("ECHOSCOPE_STORAGE")})
    elsewhere = tmp_path / "elsewhere"  # a machine without the folder of the run
    attach(elsewhere, postgres_server)
    with served(site.url, site.home), bucket:
        run = Run.objects.earliest("pk")  # those of the study wait in the queue
        object_storage.copy(run.folder, storages["runs"], run.slug, object_storage.Manifest())
        both = create_backup(tmp_path / "both.zip", site.home).manifest
        only_stored = create_backup(tmp_path / "stored.zip", elsewhere).manifest
        sizes = [path.stat().st_size for path in run.folder.rglob("*") if path.is_file()]
        assert (both.runs, both.stored) == ({run.slug: [2]}, {run.slug: sum(sizes)})
        assert (only_stored.runs, only_stored.stored) == ({}, both.stored)
    (warning,) = create_backup(tmp_path / "neither.zip", elsewhere).warnings
    assert "its folder is not on this machine" in warning
    with pytest.raises(BackupError, match="exists: nothing was written"):
        create_backup(tmp_path / "both.zip", site.home)


def test_nightly_backups_are_verified_and_the_newest_are_kept(
    site: SmallSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    (tmp_path / "other.zip").touch()
    nights = [datetime(2026, 11, day, 2, tzinfo=UTC) for day in (1, 2, 3, 4)]
    monkeypatch.setenv("DATABASE_URL", site.url)  # as the programs of `make up` have it
    with served(site.url, site.home):
        made = [make_nightly_backup(folder, site.home, 2, night) for night in nights[:3]]
        assert sorted(folder.iterdir()) == made[1:]
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in made[1:])
        assert read_archive(made[2], None).manifest.runs

        def damaged(path: Path, home: Path) -> None:
            path.write_bytes(made[2].read_bytes()[:-200])

        monkeypatch.setattr("webapp.services.backup.nightly.create_backup", damaged)
        with pytest.raises(BackupError):
            make_nightly_backup(folder, site.home, 2, nights[3])
    assert sorted(folder.iterdir()) == [*made[1:], folder / "echoscope-2026-11-04T020000.zip.damaged"]


def test_the_command_names_what_is_missing(tmp_path: Path) -> None:
    with override_settings(ECHOSCOPE_BACKUP_DIR=""), pytest.raises(CommandError, match="Set ECHOSCOPE_BACKUP_DIR"):
        call_command("nightly_backup")
    changed = override_settings(ECHOSCOPE_BACKUP_DIR=tmp_path / "new", ECHOSCOPE_DATA_DIR=tmp_path)
    with changed, pytest.raises(CommandError, match="has no database"):
        call_command("nightly_backup")
