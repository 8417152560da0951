"""A small site in a database and a folder of its own, which other connections see: for backups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import setup_databases
from django.urls import reverse
from psycopg import sql

from tests.webapp.conftest import People
from tests.webapp.full_site_fixture import create_full_site
from trainer.config.run import RunConfig
from webapp.runs.models import Run
from webapp.services.addresses import FILE, Addresses
from webapp.services.backup.embedded_server import pointed_at
from webapp.services.postgres import Postgres
from webapp.teams.actions import do_create_team, do_create_token, do_create_user, do_set_role
from webapp.teams.models import Membership

HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one is slow on purpose


@dataclass(frozen=True)
class SmallSite:
    """A database and a folder; addresses of pages, and what opens them."""

    url: str
    home: Path
    pages: dict[str, str]
    session: str
    api_token: str

    def open_pages(self) -> dict[str, int]:
        """Status of each page: with the session, or without where it is for anyone; of the API with the token."""
        status = {}
        for name, path in self.pages.items():
            client = Client()
            if name != "share":
                client.cookies[settings.SESSION_COOKIE_NAME] = self.session
            status[name] = client.get(path).status_code
        authorization = {"Authorization": f"Bearer {self.api_token}"}
        status["API"] = Client().get("/api/runs", headers=authorization).status_code
        return status


def create_database(server: Postgres, name: str, template: str = "template0") -> str:
    """Create an empty database, or a copy of `template`, in place of one that a failed test left. Returns its URL."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [template])
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return server.url(name)


@contextmanager
def served(url: str, home: Path) -> Iterator[None]:
    """Django serves the site of another database and folder."""
    with override_settings(ECHOSCOPE_DATA_DIR=home, PASSWORD_HASHERS=HASHERS), pointed_at(url):
        yield


def attach(home: Path, server: Postgres) -> None:
    """Make the server of the tests the embedded server of the folder, whose site runs."""
    (home / "postgres" / "data").mkdir(parents=True)
    (home / FILE).write_text(json.dumps(asdict(Addresses(server.port, server.password, 0, ""))))


def create_small_site(url: str, home: Path) -> SmallSite:
    """A team with a run of two iterations, shares, annotations, alerts, a session and an API token."""
    with served(url, home):
        owner = do_create_user("ada", "a long secret")
        viewer = do_create_user("grace", "a long secret")
        team = do_create_team("Agents", owner)
        do_set_role(team, viewer, Membership.Role.VIEWER)
        people = People(team, owner, viewer, do_create_user("mallory", "a long secret"))
        config = RunConfig(iterations=2)
        config.rollout.groups, config.rollout.group_size = 1, 2
        run = Run.objects.create(
            team=team, author=owner, title="Trial", config=config.model_dump(mode="json"), environment="Sokoban"
        )
        site = create_full_site(people, run)
        _, secret = do_create_token(team, owner, "reader", ["read"])
        client = Client()
        client.force_login(owner)
        arguments: dict[str, dict[str, Any]] = {
            "run": {"slug": run.slug},
            "trajectory": {"slug": site.trajectory.slug},
            "team": {"slug": team.slug},
            "share": {"token": site.known["token"]},
        }
        pages = {name: reverse("shared" if name == "share" else name, kwargs=keys) for name, keys in arguments.items()}
        return SmallSite(url, home, pages, client.cookies[settings.SESSION_COOKIE_NAME].value, secret)


def name_of_test_database() -> str:
    """The database of pytest-django, created here if no other test of the session asks for it.

    Its connection is closed, because PostgreSQL copies only unused databases.
    """
    if not str(connection.settings_dict["NAME"]).startswith("test_"):
        setup_databases(verbosity=0, interactive=False, aliases={"default": None})
    connection.close()
    return str(connection.settings_dict["NAME"])


def table_digests(url: str) -> dict[str, str]:
    """Digest of the rows of every table, in any order."""
    with psycopg.connect(url) as database:
        tables = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        digests = {}
        for (table,) in tables:
            statement = sql.SQL("SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} t")
            row = database.execute(statement.format(sql.Identifier(table))).fetchone()
            assert row is not None
            digests[table] = row[0]
    return digests


def file_contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and modification time of every file below a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
