"""Creation of a backup: tables of one snapshot, folders of runs, list of copies in object storage, signing key."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.utils.crypto import salted_hmac
from psycopg import sql

from webapp.runs import object_storage
from webapp.services.backup.archive import ArchiveManifest, ArchiveWriter, BackupError
from webapp.services.backup.database_server import connect, lift_timeouts
from webapp.services.backup.run_folders import FOLDER, copy_folder
from webapp.services.backup.table_rows import copy_out
from webapp.services.backup.table_schema import (
    Connection,
    Schema,
    current_schema,
    other_objects,
    read_schema,
    sequence_values,
)

TABLES = "tables"
SEQUENCES = "sequences"
KEY_FILE = "secret_key"
SECRET_KEY_VARIABLE = "ECHOSCOPE_SECRET_KEY"


@dataclass
class BackupSummary:
    """Result of a backup, and what the operator should know about it."""

    manifest: ArchiveManifest
    bytes: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StoredRun:
    """What the snapshot holds about a run's files."""

    slug: str
    journal_offset: int
    copy: str


def create_backup(path: Path, home: Path, using: str = DEFAULT_DB_ALIAS) -> BackupSummary:
    """Write a backup of the site while it runs. Raises BackupError; then there is no file of that name.

    The tables are read first, in one snapshot. Journals are read afterwards and only grow, so each holds at least the
    events that the snapshot knows; the site ingests the others after a restoration.
    """
    path = path.absolute()
    if path.exists():
        raise BackupError(f"{path} exists: nothing was written. Choose another name.")
    if not path.parent.is_dir():
        raise BackupError(f"There is no folder {path.parent}: create it, or choose another one.")
    with ArchiveWriter(path) as archive:
        with connect(using) as connection:
            report, runs = _copy_database(archive, connection)
        _copy_runs(archive, home, runs, report)
        key = home / KEY_FILE
        if not os.environ.get(SECRET_KEY_VARIABLE) and key.exists():
            archive.add(KEY_FILE, [key.read_bytes()])
        report.manifest.key = fingerprint()
        report.manifest.variables = sorted(name for name in os.environ if name.startswith("ECHOSCOPE_"))
        archive.finish(report.manifest)
    report.bytes = path.stat().st_size
    return report


def fingerprint() -> str:
    """Identifies the signing key without revealing it."""
    return salted_hmac("webapp.services.backup", "fingerprint", algorithm="sha256").hexdigest()[:16]


def _copy_database(archive: ArchiveWriter, connection: Connection) -> tuple[BackupSummary, list[StoredRun]]:
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    lift_timeouts(connection)
    schema = read_schema(connection)
    if "django_migrations" not in schema.tables or "runs_run" not in schema.tables:
        raise BackupError(
            f"The database has no tables of Echoscope in the schema {current_schema(connection) or '(none)'}: there is "
            "nothing to back up. Check DATABASE_URL and ECHOSCOPE_DATA_DIR."
        )
    rows = _copy_tables(archive, connection, schema)
    migrations = [
        (app, name) for app, name in connection.execute("SELECT app, name FROM django_migrations ORDER BY id")
    ]
    database: dict[str, Any] = {"schema": schema.to_json(), SEQUENCES: sequence_values(connection, schema)}
    manifest = ArchiveManifest(datetime.now(UTC).isoformat(timespec="seconds"), database, migrations, rows)
    report = BackupSummary(manifest)
    if others := other_objects(connection):
        report.warnings.append(f"Not part of the backup, because Echoscope did not create them: {', '.join(others)}.")
    statement = sql.SQL("SELECT slug, journal_offset, copy FROM runs_run ORDER BY slug")
    return report, [StoredRun(*row) for row in connection.execute(statement)]


def _copy_tables(archive: ArchiveWriter, connection: Connection, schema: Schema) -> dict[str, int]:
    rows = {}
    for table in schema.tables:
        count: list[int] = []
        archive.add(f"{TABLES}/{table}", copy_out(connection, schema, table, count))
        (rows[table],) = count
    return rows


def _copy_runs(archive: ArchiveWriter, home: Path, runs: list[StoredRun], report: BackupSummary) -> None:
    """Copy folders that are here; list copies in object storage, which is backed up by its own means."""
    storage = object_storage.configured_storage()
    for run in runs:
        folder = home / FOLDER / run.slug
        here = folder.is_dir() and object_storage.is_current(folder, run.copy)
        if here:
            checkpoints, journal = copy_folder(archive, folder, run.slug)
            report.manifest.runs[run.slug] = checkpoints
            if journal < run.journal_offset:
                report.warnings.append(
                    f"Run {run.slug}: its journal has {journal:,} bytes, of {run.journal_offset:,} in the database. "
                    "Its page shows everything; to train it further, rebuild it first (manage.py rebuild_run)."
                )
        size = None
        if storage is not None:
            try:
                size = object_storage.size(storage, run.slug)
            except object_storage.failures() as error:
                report.warnings.append(f"Run {run.slug}: its copy in object storage cannot be read ({error}).")
        if size is not None:
            report.manifest.stored[run.slug] = size
        elif not here and run.journal_offset:
            report.warnings.append(
                f"Run {run.slug}: its folder is not on this machine and it has no copy in object storage. The backup "
                "has its pages, but no log and no checkpoints."
            )
