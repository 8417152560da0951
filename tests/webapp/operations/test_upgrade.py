"""Databases of earlier versions (tests/data/upgrades) are migrated, keep their rows, and their pages open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoDbBlocker

from tests.webapp.services.backup.small_site import create_database, served
from webapp.alerts.models import DeliveryAttempt, StalledRun
from webapp.annotations.models import AnnotationVersion, MailPreference
from webapp.runs.models import Run
from webapp.services.backup.site_restore import load_backup, read_archive
from webapp.services.postgres import Postgres
from webapp.teams.models import User
from webapp.trajectories.models import ShareLink, Trajectory

FOLDER = Path(__file__).resolve().parents[2] / "data" / "upgrades"
BEFORE_SQUASH = FOLDER / "before_squash.sql"
VERSIONS = sorted([*FOLDER.glob("*.sql"), *FOLDER.glob("*.zip")])
MAX_BYTES = 100_000
LEFT_OUT = ["sessions", "admin", "account", "socialaccount"]
"""Apps whose tables are not in the SQL file."""
APPS = ("teams", "runs", "trajectories", "alerts", "annotations", "api")
TURNS = """
SELECT count(*), md5(string_agg(concat_ws('|', slug, u.number, u.seq, u.reward, u.event), '' ORDER BY slug, u.number))
FROM trajectories_turn u JOIN trajectories_trajectory t ON t.id = u.trajectory_id"""


@pytest.fixture
def old_site(
    request: pytest.FixtureRequest,
    postgres_server: Postgres,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path: Path,
) -> Iterator[Path]:
    """Django's database is that of an earlier version, not yet migrated."""
    version: Path = request.param
    url = create_database(postgres_server, "upgraded")
    with django_db_blocker.unblock(), served(url, tmp_path):
        if version.suffix == ".zip":
            load_backup(read_archive(version, tmp_path), tmp_path)
        else:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(version.read_bytes())
                connection.execute("DELETE FROM django_migrations WHERE app = ANY(%s)", [LEFT_OUT])
        yield version
        connections["default"].close()
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        admin.execute("DROP DATABASE upgraded WITH (FORCE)")


def turns() -> tuple[int, str]:
    """Number and digest of all turns, without the ORM: the tables may be older than the models."""
    with connections["default"].cursor() as cursor:
        cursor.execute(TURNS)
        count, digest = cursor.fetchone()
    return count, digest


def assert_pages_open() -> None:
    """Pages of a run, its trajectories, its shares and its team, as its author."""
    run = Run.objects.get()
    assert run.author is not None
    client = Client()
    client.force_login(run.author)
    slugs = Trajectory.objects.filter(run=run).values_list("slug", flat=True)
    paths = [reverse("runs"), reverse("run", args=[run.slug]), reverse("team", args=[run.team.slug])]
    paths += [reverse("trajectory", args=[slug]) for slug in slugs]
    paths += [reverse("shared", args=[link.token]) for link in ShareLink.objects.filter(revoked_at=None)]
    paths += [reverse("run-curves", args=[run.slug]), reverse("run-trajectories", args=[run.slug])]
    assert {path: client.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)


ADDED_LATER = {"AlertAddress", "DailyUse", "EchoTrapState", "LogLine", "Removal", "StoredModel"}
"""Models that the SQL file cannot hold."""


def assert_renamed_values() -> None:
    """Every model of the SQL file keeps its rows, under the names of today."""
    models = {model.__name__: model for app in APPS for model in apps.get_app_config(app).get_models()}
    for model in (models[name] for name in models.keys() - ADDED_LATER):
        assert list(model._default_manager.all()), f"the rows of {model.__name__} are lost"
    run = Run.objects.select_related("team", "author").get()
    assert (run.title, run.team.name, run.author and run.author.username) == ("Trial", "Agents", "ada")
    assert (run.state, run.visibility, run.seq) == ("finished", "link", 17)
    assert run.config["environment"]["mix"] == []
    assert Trajectory.objects.filter(run=run, turns__isnull=False).count() == 3
    assert DeliveryAttempt.objects.get().answer == "answer"
    assert StalledRun.objects.get(run=run).seq == 1
    assert not MailPreference.objects.get().mail
    assert AnnotationVersion.objects.get().version == 0


@pytest.mark.parametrize("old_site", VERSIONS, indirect=True, ids=lambda path: path.stem)
def test_a_database_of_an_earlier_version_is_migrated(old_site: Path) -> None:
    before = turns()
    assert before[0] >= 3
    call_command("migrate", verbosity=0)
    assert turns() == before
    assert not Trajectory.objects.filter(status__in=Trajectory.ENDED, end_reason="").exists()
    loader = MigrationLoader(connections["default"])
    assert loader.graph.nodes.keys() <= loader.applied_migrations.keys()
    if old_site == BEFORE_SQUASH:
        assert_renamed_values()
    assert_pages_open()
    newest = User.objects.latest("pk")
    assert User.objects.create(username="later").pk > newest.pk, "the sequences continue"


def test_files_of_earlier_versions_are_small() -> None:
    assert len(VERSIONS) >= 2
    assert {path.name for path in VERSIONS if path.stat().st_size > MAX_BYTES} == set()
