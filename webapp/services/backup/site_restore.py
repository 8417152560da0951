"""Restoration of a backup into an empty database and an empty folder, and the upgrade to this version's tables."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.loader import MigrationLoader

from webapp.runs import object_storage
from webapp.services.backup import preview_conversion
from webapp.services.backup.archive import DISK_FULL, ArchiveManifest, ArchiveReader, BackupError, UpgradeError
from webapp.services.backup.database_server import connect, lift_timeouts
from webapp.services.backup.run_folders import FOLDER, extract, move_into_place, names_in
from webapp.services.backup.site_backup import KEY_FILE, SECRET_KEY_VARIABLE, SEQUENCES, TABLES, fingerprint
from webapp.services.backup.table_rows import copy_in
from webapp.services.backup.table_schema import (
    Connection,
    Schema,
    add_constraints,
    create_tables,
    current_schema,
    read_schema,
    set_sequence_values,
)

SPACE_FACTOR = 3
"""Space of a table with its indexes and the log of changes, in multiples of its text."""


@dataclass
class Restored:
    """What was restored, and what the operator should know."""

    manifest: ArchiveManifest
    migrated: int = 0
    warnings: list[str] = field(default_factory=list)


def read_archive(path: Path, home: Path | None) -> ArchiveReader:
    """Open and verify an archive, and check that this version and the folder can take it. Raises BackupError."""
    archive = ArchiveReader(path.absolute())
    _check_version(archive.manifest, path)
    if home is not None:
        _check_folder(home)
        _check_space(archive.manifest, home)
    archive.verify()
    return archive


def restore_backup(archive: ArchiveReader, home: Path, using: str = DEFAULT_DB_ALIAS) -> Restored:
    """Restore a verified archive and migrate its tables. Raises BackupError, UpgradeError if only a migration fails."""
    restored = load_backup(archive, home, using)
    restored.migrated = migrate(using, archive.manifest)
    return restored


def load_backup(archive: ArchiveReader, home: Path, using: str = DEFAULT_DB_ALIAS) -> Restored:
    """Restore a verified archive as it is into the empty database of `using` and the folder `home`.

    Tables and folders appear together or, on any failure, not at all. Raises BackupError.
    """
    manifest = archive.manifest
    schema = Schema.from_json(manifest.database["schema"])
    runs = home / FOLDER
    fresh = runs / ".restored"  # on the same disk: `runs` may be a volume of its own
    from_preview = preview_conversion.is_preview(manifest)
    with connect(using) as connection:
        lift_timeouts(connection)
        _check_folder(home)
        _check_database(connection, schema.name)
        try:
            extract(archive, fresh)
            if from_preview:
                connection.rollback()  # tables that are made elsewhere wait for no transaction here
                preview_conversion.create_current_tables(using)
                lift_timeouts(connection)
                preview_conversion.load_rows(archive, connection, schema)
                preview_conversion.convert(connection, fresh)
            else:
                _load(archive, connection, schema)
            move_into_place(fresh, runs)
            connection.commit()
        except BaseException as error:
            connection.rollback()
            if from_preview:
                preview_conversion.drop_tables(connection)
            for folder in runs.iterdir() if runs.is_dir() else []:
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in DISK_FULL:
                raise BackupError(f"The disk of {home} is full: nothing was restored. Free some space.") from error
            if isinstance(error, psycopg.Error):
                raise BackupError(f"The database refused the backup: {error} Nothing was restored.") from error
            raise
    restored = Restored(manifest)
    _restore_key(archive, home, restored)
    _compare_variables(manifest, restored)
    _check_stored(manifest, restored)
    return restored


def migrate(using: str, manifest: ArchiveManifest) -> int:
    """Bring the restored tables up to this version. Returns the number of migrations applied."""
    with connections[using].cursor() as cursor:
        cursor.execute("SET lock_timeout = 0; SET statement_timeout = 0")
    try:
        call_command("migrate", database=using, interactive=False, verbosity=0)
    except Exception as error:
        raise UpgradeError(
            f"Everything was restored, but the tables could not be brought up to this version: {error}. Solve the "
            "problem and run `python manage.py prepare`, or start the version that wrote the backup."
        ) from error
    applied = MigrationLoader(connections[using]).applied_migrations
    return len(set(applied) - set(manifest.migrations))


def _check_version(manifest: ArchiveManifest, path: Path) -> None:
    """Raise BackupError unless the last migration of each app is known, or the backup is of the preview."""
    if preview_conversion.is_preview(manifest):
        return
    known = MigrationLoader(None).disk_migrations
    newest = dict(manifest.migrations)
    if unknown := [f"{app}.{name}" for app, name in newest.items() if (app, name) not in known]:
        raise BackupError(
            f"{path} was written by another, probably newer version of Echoscope: this one has no migration "
            f"{', '.join(unknown[:3])}. Nothing was changed. Install that version or a newer one."
        )


def _check_folder(home: Path) -> None:
    if names := names_in(home / FOLDER):
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise BackupError(
            f"{home / FOLDER} is not empty ({shown}). Nothing was changed. Restore into an empty folder "
            "(ECHOSCOPE_DATA_DIR=/another/folder), or move that one away first."
        )


def _check_space(manifest: ArchiveManifest, home: Path) -> None:
    """The database's own disk is unknown if it is elsewhere; then it refuses by itself."""
    embedded = not os.environ.get("DATABASE_URL")
    factor = {FOLDER: 1, TABLES: SPACE_FACTOR if embedded else 0}
    needed = sum(member.size * factor.get(name.split("/")[0], 1) for name, member in manifest.members.items())
    existing = next(folder for folder in (home, *home.parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise BackupError(
            f"The backup needs about {needed / 1e6:,.0f} MB, but the disk of {home} has {free / 1e6:,.0f} MB free. "
            "Nothing was changed."
        )


def _check_database(connection: Connection, schema_name: str) -> None:
    name = connection.info.dbname
    if tables := read_schema(connection).tables:
        raise BackupError(
            f"The database {name} is not empty: it has {len(tables)} tables, such as {tables[0]}. Nothing was changed. "
            "Create an empty database and set DATABASE_URL to it; do not run `manage.py prepare` or `make up` before."
        )
    if current_schema(connection) != schema_name:
        raise BackupError(
            f"The backup is of the schema {schema_name}, but new tables of the database {name} would be in "
            f"{current_schema(connection) or 'none'}. Nothing was changed. Set the search_path of the account."
        )
    sessions = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    ).fetchone()
    if sessions and sessions[0]:
        raise BackupError(
            f"The database {name} is in use ({sessions[0]} other connections). Nothing was changed. Stop the site's "
            "web, worker and clock processes and other clients first."
        )


def _load(archive: ArchiveReader, connection: Connection, schema: Schema) -> None:
    """Create tables with their rows, constraints and sequences in the connection's transaction."""
    create_tables(connection, schema)
    for table in schema.tables:
        rows = copy_in(connection, schema, table, archive.blocks(f"{TABLES}/{table}"))
        if rows != archive.manifest.rows[table]:
            raise BackupError(
                f"{rows} rows of {table} arrived instead of {archive.manifest.rows[table]}: nothing was restored."
            )
    add_constraints(connection, schema)
    values = archive.manifest.database[SEQUENCES]
    set_sequence_values(connection, {name: (value, used) for name, (value, used) in values.items()})
    _forget_data_folders(connection)


def _forget_data_folders(connection: Connection) -> None:
    """Leave open which data folder holds the runs' files: they are in this one now, whose identity is another."""
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'runs_run'"
    if ("data_folder",) in connection.execute(columns).fetchall():
        connection.execute("UPDATE runs_run SET data_folder = ''")


def _restore_key(archive: ArchiveReader, home: Path, restored: Restored) -> None:
    """Store the signing key of the backup, unless the key comes from a variable."""
    if not os.environ.get(SECRET_KEY_VARIABLE) and KEY_FILE in archive.manifest.members:
        new = home / f".{KEY_FILE}.new"
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_bytes(b"".join(archive.blocks(KEY_FILE)))
        new.replace(home / KEY_FILE)
    elif archive.manifest.key != fingerprint():
        restored.warnings.append(
            f"The signing key is another one than at the backup: users have to log in again, and links in e-mails sent "
            f"before are invalid. API tokens work. To avoid this, set {SECRET_KEY_VARIABLE} to the former value."
        )


def _compare_variables(manifest: ArchiveManifest, restored: Restored) -> None:
    if missing := [name for name in manifest.variables if name not in os.environ]:
        restored.warnings.append(f"Set at the backup and not set here: {', '.join(missing)}.")


def _check_stored(manifest: ArchiveManifest, restored: Restored) -> None:
    """Compare the copies in object storage, which a backup only lists, with the list."""
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
            found = object_storage.size(storage, slug) is not None
        except object_storage.failures():
            found = False
        if not found:
            restored.warnings.append(f"Run {slug}: its copy in object storage cannot be found.")
