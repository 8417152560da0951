"""A database from before the migrations were squashed is upgraded and keeps its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from pytest_django import DjangoDbBlocker

from webapp.alerts.models import DeliveryAttempt, StalledRun
from webapp.annotations.models import AnnotationVersion, MailPreference
from webapp.runs.models import Run
from webapp.services.postgres import Postgres
from webapp.trajectories.models import Trajectory

ALIAS = "upgraded"
DUMP = Path(__file__).resolve().parents[2] / "data" / "schema_before_squash.sql"
APPS = ("teams", "runs", "trajectories", "alerts", "annotations", "api")


@pytest.fixture
def old_database(postgres_server: Postgres, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """Alias of a connection to a database with the old schema and one or more rows of every model."""
    postgres_server.create_database(ALIAS)
    with psycopg.connect(postgres_server.url(ALIAS), autocommit=True) as connection:
        connection.execute(DUMP.read_bytes())
    connections.databases[ALIAS] = connections.databases["default"] | {"NAME": ALIAS}
    with django_db_blocker.unblock():
        yield ALIAS
        connections[ALIAS].close()
    del connections[ALIAS], connections.databases[ALIAS]


def test_an_old_database_is_upgraded_by_migrations(old_database: str) -> None:
    models = [model for app in APPS for model in apps.get_app_config(app).get_models()]
    call_command("migrate", database=old_database, verbosity=0)
    loader = MigrationLoader(connections[old_database])
    assert loader.graph.nodes.keys() <= loader.applied_migrations.keys()
    for model in models:
        assert list(model._default_manager.using(old_database)), f"the rows of {model.__name__} are lost"
    run = Run.objects.using(old_database).select_related("team", "author").get()
    assert (run.title, run.team.name, run.author and run.author.username) == ("Trial", "Agents", "ada")
    assert (run.state, run.visibility, run.seq) == ("finished", "link", 17)
    assert run.config["environment"]["mix"] == []
    assert Trajectory.objects.using(old_database).filter(run=run, turns__isnull=False).count() == 3
    assert DeliveryAttempt.objects.using(old_database).get().answer == "answer"
    assert StalledRun.objects.using(old_database).get(run=run).seq == 1
    assert not MailPreference.objects.using(old_database).get().mail
    assert AnnotationVersion.objects.using(old_database).get().version == 0
