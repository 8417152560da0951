"""Creation of a backup: dump of the database, folders of runs, list of copies in object storage, signing key."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from django.utils.crypto import salted_hmac

from trainer.journal.protocol import JOURNAL_FILE
from webapp.runs import object_storage
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.services.backup.archive import ArchiveManifest, ArchiveWriter, BackupError
from webapp.services.backup.embedded_server import dump, existing_server, is_external
from webapp.services.backup.run_folders import FOLDER, copy_folder

DUMP = "database.dump"
KEY_FILE = "secret_key"
SECRET_KEY_VARIABLE = "ECHOSCOPE_SECRET_KEY"

RunRow = tuple[str, int, str, bool]
"""Slug, bytes of the journal that were read, token of the current copy, and whether it was sent here."""


@dataclass
class BackupSummary:
    """Result of a backup, and what the operator should know about it."""

    manifest: ArchiveManifest
    bytes: int = 0
    warnings: list[str] = field(default_factory=list)


def create_backup(path: Path, home: Path) -> BackupSummary:
    """Write a backup of the site while it runs. Raises BackupError; then no file of that name exists.

    The database is read first, in one snapshot. Journals are read afterwards and only grow, so each contains at least
    the events in the snapshot; the site ingests later events after a restoration.
    """
    path = path.absolute()
    if is_external(home):
        raise BackupError(
            f"DATABASE_URL is set: back up that server with its own pg_dump, and then copy {home / FOLDER} and "
            f"{home / KEY_FILE} (docs/operations.md, “External PostgreSQL”)."
        )
    if path.exists():
        raise BackupError(f"{path} exists: nothing was written. Choose another name.")
    if not path.parent.is_dir():
        raise BackupError(f"There is no folder {path.parent}: create it, or choose another one.")
    with ArchiveWriter(path) as archive:
        with existing_server(home) as server, psycopg.connect(server.url()) as connection:
            report, runs, snapshot = _read_snapshot(connection)
            with dump(server, snapshot) as source:
                archive.add(DUMP, source, compress=False)
        _copy_runs(archive, home, runs, report)
        key = home / KEY_FILE
        if not os.environ.get(SECRET_KEY_VARIABLE) and key.exists():
            with key.open("rb") as file:
                archive.add_file(KEY_FILE, file)
        archive.finish(report.manifest)
    report.bytes = path.stat().st_size
    return report


def fingerprint() -> str:
    """Return a text that identifies the signing key without revealing it."""
    return salted_hmac("webapp.services.backup", "fingerprint", algorithm="sha256").hexdigest()[:16]


def _read_snapshot(connection: psycopg.Connection[Any]) -> tuple[BackupSummary, list[RunRow], str]:
    """Return summary, rows of all runs, and the name of the snapshot, which lasts as long as the transaction."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    try:
        migrations = connection.execute("SELECT app, name FROM django_migrations ORDER BY id").fetchall()
        runs = connection.execute("SELECT slug, journal_offset, copy, imported FROM runs_run ORDER BY slug").fetchall()
    except psycopg.errors.UndefinedTable:
        raise BackupError("The database has no tables of Echoscope: there is nothing to back up.") from None
    facts = "SELECT pg_export_snapshot(), pg_database_size(current_database())"
    ((snapshot, size),) = connection.execute(facts).fetchall()
    manifest = ArchiveManifest(datetime.now(UTC).isoformat(timespec="seconds"), migrations, size, key=fingerprint())
    manifest.variables = sorted(name for name in os.environ if name.startswith("ECHOSCOPE_"))
    return BackupSummary(manifest), runs, snapshot


def _some(names: list[str]) -> str:
    """Return the first names, as ASCII, and the number of the others."""
    first = ", ".join(ascii(name) for name in names[:3])
    return first if len(names) <= 3 else f"{first} and {len(names) - 3} more"


def _copy_runs(archive: ArchiveWriter, home: Path, runs: list[RunRow], report: BackupSummary) -> None:
    """Copy local folders; list copies in object storage, which has its own backups."""
    storage = object_storage.configured_storage()
    for slug, journal_offset, copy, imported in runs:
        folder = home / FOLDER / slug
        if imported and not UntrustedFolder(folder).has(JOURNAL_FILE):
            journal_offset = 0  # it was sent: the site has only what it read, and perhaps images
        here = folder.is_dir() and object_storage.is_current(folder, copy)
        if here:
            copied = copy_folder(archive, folder, slug)
            report.manifest.runs[slug] = copied.checkpoints
            report.manifest.left_out += copied.left_out
            if copied.refused:
                report.warnings.append(
                    f"Run {slug}: without {_some(copied.refused)}: no plain files that belong to this run only, or not "
                    "readable."
                )
            if copied.journal < journal_offset:
                report.warnings.append(
                    f"Run {slug}: its journal has {copied.journal:,} bytes, of {journal_offset:,} in the database. "
                    "Its page shows everything; to train it further, rebuild it first (manage.py rebuild_run)."
                )
        size = None
        if storage is not None:
            try:
                size = object_storage.size(storage, slug)
            except object_storage.failures() as error:
                report.warnings.append(f"Run {slug}: its copy in object storage cannot be read ({error}).")
        if size is not None:
            report.manifest.stored[slug] = size
        elif not here and journal_offset:
            report.warnings.append(
                f"Run {slug}: its folder is not on this machine and it has no copy in object storage. The backup "
                "has its pages, but no log and no checkpoints."
            )
