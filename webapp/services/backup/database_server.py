"""The database of a backup: an own server (DATABASE_URL) or the embedded one, started for as long as it is needed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.conninfo import make_conninfo

from webapp.core import env
from webapp.services import addresses
from webapp.services.backup.archive import BackupError, UpgradeError
from webapp.services.backup.table_schema import Connection
from webapp.services.child_process import NotReady, spawn, stop, wait_ready
from webapp.services.lock import Lock
from webapp.services.postgres import Postgres, PostgresError

READY_SECONDS = 60.0


@contextmanager
def serve_existing(home: Path) -> Iterator[None]:
    """Let Django's default connection reach the site's database: starts the embedded server if the site is stopped."""
    stored = addresses.stored_addresses(home)
    if os.environ.get("DATABASE_URL") or stored is None or stored.postgres(home).answers():
        yield
        return
    with _locked(home), _running(addresses.choose(home).postgres(home), home):
        yield


@contextmanager
def serve_new(home: Path) -> Iterator[None]:
    """Let Django's default connection reach the database to restore into: by default a new embedded one.

    Raises BackupError if the site runs or its embedded database exists. A new one is removed if the block raises.
    """
    with _locked(home):
        if os.environ.get("DATABASE_URL"):
            yield
            return
        if (home / "postgres").exists():
            raise BackupError(
                f"{home / 'postgres'} exists: this folder has a database. Nothing was changed. Restore into an empty "
                "folder (ECHOSCOPE_DATA_DIR=/another/folder), or move that one away first."
            )
        services = home / "services.json"
        known = services.exists()
        server = addresses.choose(home).postgres(home)
        try:
            server.initialise()
            with _running(server, home):
                server.create_database()
                yield
        except UpgradeError:
            raise
        except BaseException:
            shutil.rmtree(home / "postgres", ignore_errors=True)
            if not known:
                services.unlink(missing_ok=True)
            raise


def connect(using: str = DEFAULT_DB_ALIAS) -> Connection:
    """A connection of its own to the database of a Django alias. Raises BackupError."""
    settings = connections[using].settings_dict
    options = {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
    address = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    options |= {name: settings[key] for name, key in address.items() if settings[key]}
    try:
        connection: Connection = psycopg.connect(make_conninfo(**options))
    except psycopg.OperationalError as error:
        raise BackupError(
            f"The database does not answer: {str(error).strip()}. Set DATABASE_URL to its address, or "
            "ECHOSCOPE_DATA_DIR to the folder of the site."
        ) from None
    return connection


def lift_timeouts(connection: Connection) -> None:
    """Let the current transaction take and wait for as long as it needs."""
    connection.execute(
        "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN "
        "('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"
    )


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    lock = Lock(home)
    try:
        lock.take()
    except RuntimeError as error:  # it is running, or the folder cannot be written
        raise BackupError(f"{error} Nothing was changed.") from None
    except OSError as error:
        raise BackupError(f"{home} cannot be written ({error.strerror}). Nothing was changed.") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _running(server: Postgres, home: Path) -> Iterator[None]:
    """Run the server, with Django's default connection pointing at it."""
    program = server.program(home / "log" / "postgres.log")
    try:
        process = spawn(program)
    except PostgresError as error:
        raise BackupError(str(error)) from None
    try:
        wait_ready(program, process, READY_SECONDS)
        with pointed_at(server.url()):
            yield
    except NotReady as error:
        raise BackupError(str(error)) from None
    finally:
        stop(program, process)


@contextmanager
def pointed_at(url: str) -> Iterator[None]:
    """Django's default connection leads to another database."""
    connection = connections[DEFAULT_DB_ALIAS]
    names = ("NAME", "USER", "PASSWORD", "HOST", "PORT")
    before = {name: connection.settings_dict[name] for name in names}
    connection.close()
    connection.settings_dict.update({name: env.database(url)[name] for name in names})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)
