"""Backup of a site with real PostgreSQL and its restoration elsewhere: everything is equal, or nothing is there."""

from __future__ import annotations

import io
import json
import resource
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.files.storage import storages
from django.core.management import CommandError, call_command
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tests.webapp.services.backup.small_site import (
    SmallSite,
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
from webapp.services.backup.archive import MANIFEST, ArchiveReader, ArchiveWriter, BackupError
from webapp.services.backup.database_server import serve_new
from webapp.services.backup.run_folders import copy_folder
from webapp.services.backup.site_backup import create_backup
from webapp.services.backup.site_restore import read_archive, restore_backup
from webapp.services.backup.table_rows import copy_out
from webapp.services.backup.table_schema import Connection, Schema, read_schema
from webapp.services.lock import Lock
from webapp.services.postgres import Postgres
from webapp.teams.models import User

KEY = "secret_key"


@pytest.fixture(scope="module")
def site(
    postgres_server: Postgres,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SmallSite]:
    with django_db_blocker.unblock():
        url = create_database(postgres_server, "backed_up", name_of_test_database())
        home = tmp_path_factory.mktemp("site")
        (home / KEY).write_text(settings.SECRET_KEY)
        with served(url, home):
            call_command("flush", interactive=False, verbosity=0)  # of rows that another test has left
        yield create_small_site(url, home)


@pytest.fixture(scope="module")
def archive(site: SmallSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "site.zip"
    with served(site.url, site.home):
        assert create_backup(path, site.home).warnings == []
    return path


@pytest.fixture
def empty(postgres_server: Postgres, site: SmallSite) -> Iterator[str]:
    """URL of a new, empty database."""
    url = create_database(postgres_server, "restored")
    yield url
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        admin.execute("DROP DATABASE restored WITH (FORCE)")


def restore(path: Path, home: Path) -> list[str]:
    """Restore into Django's database. Returns the warnings about keys, variables and storage."""
    return restore_backup(read_archive(path, home), home).warnings


def tables(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return read_schema(connection).tables


def rewritten(path: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """An undamaged archive whose manifest differs."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            data = source.read(name)
            if name == MANIFEST:
                manifest = json.loads(data)
                change(manifest)
                data = json.dumps(manifest).encode()
            copy.writestr(name, data)
    return target


def test_a_restored_site_is_equal_and_its_pages_sessions_and_tokens_work(
    site: SmallSite, archive: Path, empty: str, tmp_path: Path
) -> None:
    assert archive.stat().st_mode & 0o777 == 0o600
    home = tmp_path / "home"
    with served(empty, home):
        restore(archive, home)
        assert table_digests(empty) == table_digests(site.url)
        with psycopg.connect(empty) as copy, psycopg.connect(site.url) as original:
            assert read_schema(copy) == read_schema(original)
        assert file_contents(home / "runs") == file_contents(site.home / "runs")
        assert (home / KEY).read_text() == settings.SECRET_KEY
        assert (home / KEY).stat().st_mode & 0o777 == 0o600
        restored = SmallSite(empty, home, site.pages, site.session, site.api_token)
        assert restored.open_pages() == dict.fromkeys([*site.pages, "API"], 200)
        newest = Run.objects.earliest("pk")  # those of the study wait in the queue
        assert User.objects.create(username="later").pk > User.objects.exclude(username="later").latest("pk").pk
        journal = newest.folder / JOURNAL_FILE
        assert journal.stat().st_size == newest.journal_offset


def test_restored_runs_belong_to_the_data_folder_that_they_were_restored_to(
    site: SmallSite, empty: str, tmp_path: Path
) -> None:
    with served(site.url, site.home):
        assert Run.objects.update(data_folder="a" * 24)
        create_backup(tmp_path / "site.zip", site.home)
        Run.objects.update(data_folder="")
    with served(empty, tmp_path / "home"):
        restore(tmp_path / "site.zip", tmp_path / "home")
        assert set(Run.objects.values_list("data_folder", flat=True)) == {""}


def test_a_snapshot_has_nothing_that_is_written_meanwhile(
    site: SmallSite, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table_digests(site.url)

    def copy_while_another_writes(connection: Connection, schema: Schema, table: str, count: list[int]) -> Any:
        with psycopg.connect(site.url) as other:
            other.execute("UPDATE runs_run SET title = title || '!'")
        return copy_out(connection, schema, table, count)

    path = tmp_path / "site.zip"
    with served(site.url, site.home), monkeypatch.context() as patch:
        patch.setattr("webapp.services.backup.site_backup.copy_out", copy_while_another_writes)
        create_backup(path, site.home)
    with served(empty, tmp_path / "home"):
        restore(path, tmp_path / "home")
    assert table_digests(empty) == before
    with psycopg.connect(site.url) as other:
        other.execute("UPDATE runs_run SET title = 'Trial'")


class Meanwhile(ArchiveWriter):
    """An archive that is written while the trainer works: `act` runs once, before the member of that name."""

    def __init__(self, path: Path, name: str, act: Callable[[], None]) -> None:
        super().__init__(path)
        self._name, self._act = name, act

    def add(self, name: str, blocks: Iterable[bytes], *, compress: bool = True, mtime_ns: int = 0) -> None:
        if name == self._name:
            self._act()
        super().add(name, blocks, compress=compress, mtime_ns=mtime_ns)


def test_a_folder_is_copied_while_training_deletes_checkpoints_and_appends_to_the_journal(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for iteration in (1, 2):
        checkpoint = folder / f"checkpoints/{iteration:06d}"
        checkpoint.mkdir(parents=True)
        for name in ("learner.pt", CHECKPOINT_STATE):
            (checkpoint / name).write_text("{}")
    (folder / "checkpoints/000003.new").mkdir()
    (folder / "checkpoints/000003.new/learner.pt").write_text("half")
    (folder / JOURNAL_FILE).write_bytes(b'{"seq":1}\n{"se')

    def train() -> None:
        shutil.rmtree(folder / "checkpoints/000001")
        with (folder / JOURNAL_FILE).open("ab") as journal:
            journal.write(b'q":2}\n{"half of')

    with Meanwhile(tmp_path / "x.zip", "runs/abc/checkpoints/000001/learner.pt", train) as archive:
        assert copy_folder(archive, folder, "abc") == ([2], 20)
        assert {name: member.size for name, member in archive.members.items()} == {
            "runs/abc/checkpoints/000002/learner.pt": 2,
            "runs/abc/checkpoints/000002/state.json": 2,
            "runs/abc/journal.jsonl": 20,
        }


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "another file"])
def test_a_damaged_archive_is_refused_before_anything_changes(
    damage: str, archive: Path, empty: str, tmp_path: Path
) -> None:
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
    with served(empty, home), pytest.raises(BackupError, match=r"damaged or incomplete: .*Nothing was changed"):
        restore(broken, home)
    assert not home.exists()
    assert tables(empty) == []


def test_a_restoration_that_fails_half_way_leaves_nothing(archive: Path, empty: str, tmp_path: Path) -> None:
    def miscount(manifest: dict[str, Any]) -> None:
        manifest["rows"]["trajectories_turn"] += 1

    wrong, home = rewritten(archive, tmp_path / "wrong.zip", miscount), tmp_path / "home"
    with served(empty, home):
        with pytest.raises(BackupError, match="rows of trajectories_turn arrived"):
            restore(wrong, home)
        assert tables(empty) == []
        assert file_contents(home) == {}
        restore(archive, home)
        assert Run.objects.exists()


def test_an_archive_of_a_newer_version_is_refused(archive: Path, empty: str, tmp_path: Path) -> None:
    later = rewritten(archive, tmp_path / "1.zip", lambda it: it["migrations"].append(["runs", "0999_later"]))
    with served(empty, tmp_path), pytest.raises(BackupError, match=r"no migration runs\.0999_later"):
        restore(later, tmp_path)
    later = rewritten(archive, tmp_path / "2.zip", lambda it: it.update(format=2))
    with served(empty, tmp_path), pytest.raises(BackupError, match="newer version"):
        restore(later, tmp_path)
    assert tables(empty) == []


def test_a_site_with_data_is_not_restored_over(site: SmallSite, archive: Path, empty: str, tmp_path: Path) -> None:
    before = table_digests(site.url), file_contents(site.home)
    with served(site.url, tmp_path), pytest.raises(BackupError, match=r"database backed_up is not empty: .* tables"):
        restore(archive, tmp_path)
    with served(empty, site.home), pytest.raises(BackupError, match=r"runs is not empty \(\w+\)\. Nothing was changed"):
        restore(archive, site.home)
    with (
        psycopg.connect(empty),
        served(empty, tmp_path),
        pytest.raises(BackupError, match=r"in use \(1 other connections\)"),
    ):
        restore(archive, tmp_path)
    assert (table_digests(site.url), file_contents(site.home)) == before
    assert (tables(empty), file_contents(tmp_path)) == ([], {})


def test_a_running_site_is_not_restored_over(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    lock.take()
    with pytest.raises(BackupError, match="already running"), serve_new(tmp_path):
        pass
    lock.release()
    with serve_new(tmp_path):  # with DATABASE_URL set, as in all tests
        assert not (tmp_path / "postgres").exists()


def test_a_full_disk_leaves_no_file(site: SmallSite, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with served(site.url, site.home):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
            with pytest.raises(BackupError, match=r"The disk is full: .*site\.zip was not written"):
                create_backup(tmp_path / "site.zip", site.home)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert list(tmp_path.iterdir()) == []
        create_backup(tmp_path / "site.zip", site.home)
        with pytest.raises(BackupError, match="exists: nothing was written"):
            create_backup(tmp_path / "site.zip", site.home)
    ArchiveReader(tmp_path / "site.zip").verify()


def test_an_empty_database_and_a_silent_one_have_no_backup(empty: str, tmp_path: Path) -> None:
    with served(empty, tmp_path), pytest.raises(BackupError, match="no tables of Echoscope"):
        create_backup(tmp_path / "site.zip", tmp_path)
    silent = empty.replace("/restored", "/missing")
    with served(silent, tmp_path), pytest.raises(BackupError, match=r"does not answer.*DATABASE_URL"):
        create_backup(tmp_path / "site.zip", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_signing_key_is_reported(
    archive: Path, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHOSCOPE_SECRET_KEY", "another")
    with served(empty, tmp_path / "home"), override_settings(SECRET_KEY="another"):
        first, *_ = restore(archive, tmp_path / "home")
    assert "users have to log in again" in first
    assert not (tmp_path / "home" / KEY).exists()


def test_copies_in_object_storage_are_listed_and_looked_for(
    site: SmallSite, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHOSCOPE_STORAGE", f"file://{tmp_path}/bucket")
    bucket = override_settings(STORAGES=settings.STORAGES | {"runs": env.storage("ECHOSCOPE_STORAGE")})
    elsewhere, home = tmp_path / "elsewhere", tmp_path / "home"  # machines without the folder of the run
    elsewhere.mkdir()
    path = tmp_path / "site.zip"
    with served(site.url, site.home), bucket:
        run = Run.objects.earliest("pk")  # those of the study wait in the queue
        object_storage.copy(run.folder, storages["runs"], run.slug, object_storage.Manifest())
        manifest = create_backup(path, elsewhere).manifest
        sizes = [path.stat().st_size for path in run.folder.rglob("*") if path.is_file()]
        assert manifest.stored == {run.slug: sum(sizes)}
        assert manifest.runs == {}
        both = create_backup(tmp_path / "both.zip", site.home).manifest
        assert (both.runs, both.stored) == ({run.slug: [2]}, manifest.stored)
        shutil.rmtree(tmp_path / "bucket")
    with served(empty, home), bucket:
        assert restore(path, home)[-1] == f"Run {run.slug}: its copy in object storage cannot be found."
    with served(site.url, site.home):
        (warning,) = create_backup(tmp_path / "neither.zip", elsewhere).warnings
    assert "its folder is not on this machine" in warning


def test_commands_start_the_embedded_database_of_a_stopped_site(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, django_db_blocker: DjangoDbBlocker
) -> None:
    monkeypatch.delenv("DATABASE_URL")
    home, again = tmp_path / "home", tmp_path / "again.zip"

    def manage(*words: str) -> str:
        output = io.StringIO()
        with override_settings(ECHOSCOPE_DATA_DIR=home):
            call_command(*words, stdout=output, stderr=output)
        return output.getvalue()

    assert manage("restore", str(archive)).startswith("Restored ")
    assert manage("backup", str(again)).startswith(f"{again}: ")
    first, second = ArchiveReader(archive).manifest, ArchiveReader(again).manifest
    assert {name: (one.size, one.sha256) for name, one in second.members.items()} == {
        name: (one.size, one.sha256) for name, one in first.members.items()
    }
    assert (second.rows, second.database, second.runs) == (first.rows, first.database, first.runs)
    assert manage("restore", "--check", str(again)).startswith(f"{again} is complete")
    with pytest.raises(CommandError, match="runs is not empty"):
        manage("restore", str(archive))
    shutil.rmtree(home / "runs")
    with pytest.raises(CommandError, match="this folder has a database"):
        manage("restore", str(archive))
