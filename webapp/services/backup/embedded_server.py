"""The embedded database server for a backup or a restoration: started if the site is stopped, dumped and loaded.

PostgreSQL's pg_dump and pg_restore come with the server, in the same version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from django.db import DEFAULT_DB_ALIAS, connections

from webapp.core import env
from webapp.services import addresses
from webapp.services.backup.archive import BackupError
from webapp.services.child_process import NotReady, spawn, stop, wait_ready
from webapp.services.lock import Lock
from webapp.services.postgres import DATABASE, USER, Postgres, PostgresError, binaries

READY_SECONDS = 60.0


def is_external(home: Path) -> bool:
    """Return True if the operator provides the site's database. `make up` gives its programs the folder's database."""
    url, stored = os.environ.get("DATABASE_URL"), addresses.stored_addresses(home)
    return bool(url) and (stored is None or url != stored.postgres(home).url())


@contextmanager
def existing_server(home: Path) -> Iterator[Postgres]:
    """Yield the server of the site in that folder, started if the site is stopped. Raises BackupError."""
    stored = addresses.stored_addresses(home)
    if stored is None or not stored.postgres(home).data.exists():
        raise BackupError(
            f"{home} has no database: there is nothing to back up. Set ECHOSCOPE_DATA_DIR to the folder of the site."
        )
    if stored.postgres(home).answers():
        yield stored.postgres(home)
        return
    with locked(home), running(addresses.choose(home).postgres(home), home) as server:
        yield server


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Keep the site of that folder from starting. Raises BackupError if it runs or the folder cannot be written."""
    lock = Lock(home)
    try:
        lock.take()
    except RuntimeError as error:
        raise BackupError(f"{error} Nothing was changed.") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def running(server: Postgres, home: Path) -> Iterator[Postgres]:
    """Run a server whose data folder exists. Raises BackupError."""
    program = server.program(home / "log" / "postgres.log")
    try:
        process = spawn(program)
    except PostgresError as error:
        raise BackupError(str(error)) from None
    try:
        wait_ready(program, process, READY_SECONDS)
        yield server
    except NotReady as error:
        raise BackupError(str(error)) from None
    finally:
        stop(program, process)


@contextmanager
def pointed_at(url: str) -> Iterator[None]:
    """Point Django's default connection to another database."""
    connection = connections[DEFAULT_DB_ALIAS]
    names = ("NAME", "USER", "PASSWORD", "HOST", "PORT")
    previous = {name: connection.settings_dict[name] for name in names}
    connection.close()
    connection.settings_dict.update({name: env.database(url)[name] for name in names})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(previous)


@contextmanager
def dump(server: Postgres, snapshot: str) -> Iterator[IO[bytes]]:
    """Yield the database as of an exported snapshot, in pg_dump's custom format. Raises BackupError at its end."""
    with _tool(server, "pg_dump", "--format=custom", f"--snapshot={snapshot}", stdout=subprocess.PIPE) as process:
        yield process.stdout


def load(server: Postgres, source: IO[bytes]) -> None:
    """Load a dump into the empty database, completely or not at all. Raises BackupError."""
    options = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
    with _tool(server, "pg_restore", *options, stdin=subprocess.PIPE) as process:
        shutil.copyfileobj(source, process.stdin)


@contextmanager
def _tool(server: Postgres, name: str, *options: str, **pipes: Any) -> Iterator[Any]:
    """Run a PostgreSQL program on the server's database. Raises BackupError with its message if it fails."""
    address = ("--host=127.0.0.1", f"--port={server.port}", f"--username={USER}", f"--dbname={DATABASE}")
    argv = [str(binaries() / name), *address, *options]
    environment = {**os.environ, "PGPASSWORD": server.password}
    with tempfile.TemporaryFile() as log:
        with (
            suppress(BrokenPipeError),  # it has failed, and its message says why
            subprocess.Popen(argv, stderr=log, env=environment, **pipes) as process,
        ):
            yield process
        if process.returncode:
            log.seek(0)
            raise BackupError(f"{name} failed: {log.read().decode(errors='replace').strip()}")
