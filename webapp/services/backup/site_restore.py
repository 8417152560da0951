"""Restores a backup into an empty folder, and upgrades it to this version's tables."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.loader import MigrationLoader

from trainer.journal.writer import sync_to_disk
from webapp.runs import object_storage
from webapp.services import addresses
from webapp.services.backup import preview_conversion
from webapp.services.backup.archive import DISK_FULL, ArchiveManifest, ArchiveReader, BackupError
from webapp.services.backup.embedded_server import is_external, load, locked, pointed_at, running
from webapp.services.backup.run_folders import FOLDER
from webapp.services.backup.site_backup import DUMP, KEY_FILE, SECRET_KEY_VARIABLE, fingerprint
from webapp.services.postgres import Postgres

PARTIAL = ".restored"
"""Suffix of the database and name of the folder of runs until both are complete."""


@dataclass
class Restored:
    """The restored data, and notes for the operator."""

    manifest: ArchiveManifest
    migrated: int = 0
    warnings: list[str] = field(default_factory=list)


def read_archive(path: Path, home: Path | None) -> ArchiveReader:
    """Open and verify an archive, and check that this version and the folder can take it. Raises BackupError."""
    archive = ArchiveReader(path.absolute())
    _check_version(archive)
    if home is not None:
        _check_place(archive, home)
    archive.verify()
    return archive


def restore_backup(archive: ArchiveReader, home: Path) -> Restored:
    """Restore a verified archive into the folder `home`, completely or not at all. Raises BackupError."""
    restored = Restored(archive.manifest)
    runs, database = home / FOLDER, home / f"postgres{PARTIAL}"
    existed = (home / addresses.FILE).exists()
    with locked(home):
        Postgres(database, 0, "").stop_earlier_server()  # left by a restoration that was killed
        shutil.rmtree(runs / PARTIAL, ignore_errors=True)
        shutil.rmtree(database, ignore_errors=True)
        _check_place(archive, home)
        try:
            restored.migrated = _fill(archive, home, database)
        except BaseException as error:
            shutil.rmtree(database, ignore_errors=True)
            for folder in runs.iterdir() if runs.is_dir() else []:
                shutil.rmtree(folder, ignore_errors=True)
            if not existed:
                (home / addresses.FILE).unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in DISK_FULL:
                raise BackupError(f"The disk of {home} is full: nothing was restored. Free some space.") from error
            if isinstance(error, DatabaseError):
                raise BackupError(f"The database refused the backup: {error} Nothing was restored.") from error
            raise
        _restore_key(archive, home, restored)
    if missing := [name for name in archive.manifest.variables if name not in os.environ]:
        restored.warnings.append(f"Set at the backup and not set here: {', '.join(missing)}.")
    _check_stored(archive.manifest, restored)
    return restored


def _fill(archive: ArchiveReader, home: Path, database: Path) -> int:
    """Fill the database and the folder of runs. Returns the number of migrations applied."""
    runs, migrated = home / FOLDER, 0
    (runs / PARTIAL).mkdir(parents=True)  # on the same disk: `runs` may be a separate volume
    archive.extract_folder(FOLDER, runs / PARTIAL)
    if is_external(home):
        with transaction.atomic():
            preview_conversion.load(archive, runs / PARTIAL / FOLDER)
            _move_into_place(runs)
        return migrated
    server = replace(addresses.choose(home).postgres(home), folder=database)
    server.initialise()
    with running(server, home), pointed_at(server.url()):
        server.create_database()
        if preview_conversion.is_preview(archive.manifest):
            with transaction.atomic():
                preview_conversion.load(archive, runs / PARTIAL / FOLDER)
        else:
            load(server, archive.open(DUMP))
            migrated = _migrate(archive.manifest)
    _move_into_place(runs)
    database.rename(home / "postgres")
    sync_to_disk(home)
    return migrated


def _migrate(manifest: ArchiveManifest) -> int:
    """Upgrade the restored tables to this version. Returns the number of migrations applied. Raises BackupError."""
    try:
        call_command("migrate", interactive=False, verbosity=0)
        with connection.cursor() as cursor:  # the files are in another data folder now; the site notes which
            cursor.execute("UPDATE runs_run SET data_folder = ''")
    except Exception as error:
        raise BackupError(
            f"The tables could not be brought up to this version: {error}. Nothing was restored. Restore the backup "
            "with the version that wrote it."
        ) from error
    return len(set(MigrationLoader(connection).applied_migrations) - set(manifest.migrations))


def _move_into_place(runs: Path) -> None:
    os.sync()
    extracted = runs / PARTIAL / FOLDER
    for folder in extracted.iterdir() if extracted.is_dir() else []:
        folder.rename(runs / folder.name)
    shutil.rmtree(runs / PARTIAL)
    sync_to_disk(runs)


def _check_version(archive: ArchiveReader) -> None:
    """Raise BackupError unless the last migration of each app is known, or the backup is of the preview."""
    if preview_conversion.is_preview(archive.manifest):
        return
    known = MigrationLoader(None).disk_migrations
    newest = dict(archive.manifest.migrations)
    unknown = [f"{app}.{name}" for app, name in newest.items() if (app, name) not in known]
    if archive.format == 1:
        raise BackupError(f"Only the version that wrote {archive.path}, one before 0.1.0, can restore it.")
    if unknown:
        raise BackupError(
            f"{archive.path} was written by another, probably newer version of Echoscope: this one has no migration "
            f"{', '.join(unknown[:3])}. Nothing was changed. Install that version or a newer one."
        )


def _check_place(archive: ArchiveReader, home: Path) -> None:
    """Raise BackupError unless the database and the folder of runs are empty and there is enough space."""
    used = [path for path in (home / "postgres", *_entries(home / FOLDER)) if path.exists()]
    if is_external(home):
        if not preview_conversion.is_preview(archive.manifest):
            raise BackupError(
                f"DATABASE_URL is set: {archive.path} is restored into the embedded server only. Nothing was changed. "
                "Unset it, or load the parts of the file yourself (docs/operations.md, “External PostgreSQL”)."
            )
        if tables := connection.introspection.table_names():
            raise BackupError(
                f"The database {connection.settings_dict['NAME']} is not empty: it has {len(tables)} tables, such as "
                f"{tables[0]}. Nothing was changed. Create an empty database and set DATABASE_URL to it."
            )
        used = _entries(home / FOLDER)
    if used:
        raise BackupError(
            f"{home} has data of a site already, such as {used[0]}. Nothing was changed. Restore into an empty "
            "folder (ECHOSCOPE_DATA_DIR=/another/folder), or move that one away first."
        )
    existing = next(folder for folder in (home, *home.parents) if folder.is_dir())
    needed, free = archive.bytes_in(FOLDER) + archive.manifest.database_bytes, shutil.disk_usage(existing).free
    if needed > free:
        raise BackupError(
            f"The backup needs about {needed / 1e6:,.0f} MB, but the disk of {home} has {free / 1e6:,.0f} MB free. "
            "Nothing was changed."
        )


def _entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != PARTIAL] if folder.is_dir() else []


def _restore_key(archive: ArchiveReader, home: Path, restored: Restored) -> None:
    """Store the signing key of the backup, unless the key comes from a variable."""
    if not os.environ.get(SECRET_KEY_VARIABLE) and KEY_FILE in archive.names:
        new = home / f".{KEY_FILE}.new"
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_bytes(archive.open(KEY_FILE).read())
        new.replace(home / KEY_FILE)
    elif archive.manifest.key != fingerprint():
        restored.warnings.append(
            f"The signing key is another one than at the backup: users have to log in again, and links in e-mails sent "
            f"before are invalid. API tokens work. To avoid this, set {SECRET_KEY_VARIABLE} to the former value."
        )


def _check_stored(manifest: ArchiveManifest, restored: Restored) -> None:
    """Compare the copies in object storage with the backup, which only lists them."""
    if not manifest.stored:
        return
    storage = object_storage.configured_storage()
    if storage is None:
        restored.warnings.append(
            f"{len(manifest.stored)} runs had copies in object storage: set ECHOSCOPE_STORAGE to that bucket."
        )
        return
    for slug in manifest.stored:
        try:
            exists = object_storage.size(storage, slug) is not None
        except object_storage.failures():
            exists = False
        if not exists:
            restored.warnings.append(f"Run {slug}: its copy in object storage cannot be found.")
