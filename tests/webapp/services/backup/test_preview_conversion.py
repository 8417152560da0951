"""A site of the preview before 0.1.0 (tests/data/preview.zip, made at ccb229f6) moves over with all its rows."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from django.db import connections
from django.test import Client
from django.urls import reverse
from psycopg import sql
from pytest_django import DjangoDbBlocker

from tests.webapp.services.backup.small_site import create_database, name_of_test_database, served
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import RunStarted
from trainer.journal.protocol import CONFIG_FILE, JOURNAL_FILE
from trainer.loops.stages import checkpoints
from webapp.ingest.tailer import JournalTailer
from webapp.notifications.models import Delivery, Notification, Rule
from webapp.runs.models import Run
from webapp.saved_views.models import SavedView
from webapp.services.backup import preview_conversion
from webapp.services.backup.archive import MANIFEST, BackupError
from webapp.services.backup.site_restore import Restored, read_archive, restore_backup
from webapp.services.postgres import Postgres
from webapp.studies.models import Study
from webapp.studies.study_spec import GridSpec, read_spec
from webapp.teams.models import User
from webapp.trajectories.models import ShareLink, Trajectory

ARCHIVE = Path(__file__).resolve().parents[3] / "data" / "preview.zip"
GROWING = {"django_migrations", "django_content_type", "auth_permission"}
"""Tables of Django's own, whose rows follow from the code."""


@dataclass(frozen=True)
class Moved:
    """The site after its restoration; Django's default connection leads to it."""

    url: str
    new_site: str
    home: Path
    restored: Restored

    @property
    def folder(self) -> Path:
        return self.home / "runs" / Run.objects.get(title="Trial").slug


@pytest.fixture(scope="module")
def moved(
    postgres_server: Postgres,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Moved]:
    home = tmp_path_factory.mktemp("moved")
    url = create_database(postgres_server, "moved")
    with django_db_blocker.unblock():
        new_site = postgres_server.url(name_of_test_database())
    with django_db_blocker.unblock(), served(url, home):
        yield Moved(url, new_site, home, restore_backup(read_archive(ARCHIVE, home), home))
        connections["default"].close()
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as admin:
        admin.execute("DROP DATABASE moved WITH (FORCE)")


def test_no_row_is_lost(moved: Moved) -> None:
    kept = dict(moved.restored.manifest.preview["rows"])
    assert (kept.pop("annotations_mailpreference"), kept.pop("alerts_stalledrun")) == (0, 0)
    kept["notifications_notification"] += kept["annotations_mention"]
    assert min(kept[table] for table in ("trajectories_turn", "annotations_comment", "reports_report")) > 0
    with psycopg.connect(moved.url) as connection:
        found = {table: _count(connection, preview_conversion.current_table(table)) for table in kept}
    assert {table: rows for table, rows in found.items() if rows != kept[table]}.keys() <= GROWING
    assert found["auth_permission"] > kept["auth_permission"]
    newest = User.objects.latest("pk")
    assert User.objects.create(username="later").pk > newest.pk, "the sequences continue"


def test_the_tables_are_those_of_a_new_site(moved: Moved) -> None:
    with psycopg.connect(moved.url) as connection, psycopg.connect(moved.new_site) as new:
        assert _columns(connection) == _columns(new)


def test_pages_open(moved: Moved) -> None:
    run = Run.objects.get(title="Trial")
    assert run.author is not None
    client = Client()
    client.force_login(run.author)
    slugs = Trajectory.objects.filter(run=run).values_list("slug", flat=True)
    assert slugs
    paths = [reverse("runs"), reverse("run", args=[run.slug]), reverse("team", args=[run.team.slug])]
    paths += [reverse("trajectory", args=[slug]) for slug in slugs]
    paths += [reverse("shared", args=[link.token]) for link in ShareLink.objects.filter(revoked_at=None)]
    paths += [reverse("run-curves", args=[run.slug]), reverse("run-trajectories", args=[run.slug])]
    paths += [reverse("study", args=[Study.objects.get().slug])]
    assert {path: client.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)


def test_settings_and_secrets_are_those_of_this_version(moved: Moved) -> None:
    config = RunConfig.model_validate(Run.objects.get(title="Trial").config)
    assert config.environment.mix[0].settings == {"size": 7, "typical_length": None}, "as the preview played them"
    spec = read_spec(Study.objects.get().spec)
    assert isinstance(spec, GridSpec)
    assert spec.axes[0].setting == "algorithm.gae_lambda"
    assert RunConfig.model_validate(spec.config).environment.mix == config.environment.mix
    rule = Rule.objects.get()
    assert (rule.secret, rule.former_secrets[0]["secret"]) == ("whsec_ZWNob3NlY18zdy1feA==", "whsec_ZWNob3NlY19vbGQ=")
    assert Delivery.objects.get().facts["rule"]["id"] == rule.slug
    mention = Notification.objects.mentions().get()
    assert mention.comment is not None
    assert mention.title.startswith(f"{mention.comment.author_name} mentioned you on ")
    assert SavedView.objects.get().query == "group_number=1&split=train"


def test_a_run_can_be_resumed_and_its_journal_is_read_on(moved: Moved) -> None:
    run, folder = Run.objects.get(title="Trial"), moved.folder
    config = RunConfig.model_validate(run.config)
    assert RunConfig.model_validate(yaml.safe_load((folder / CONFIG_FILE).read_text())) == config
    assert checkpoints.newest_sound(folder) == (2, {})
    assert checkpoints.load_progress(folder, 2).config_digest == config.digest()
    (started,) = [event for event in reader.read(folder / JOURNAL_FILE) if isinstance(event, RunStarted)]
    assert RunConfig.model_validate(started.config).environment.name == "Sokoban"
    assert JournalTailer(run, folder).drain() == 0
    run.refresh_from_db()
    assert run.failure == ""


def test_a_restoration_that_fails_leaves_nothing(postgres_server: Postgres, moved: Moved, tmp_path: Path) -> None:
    url = create_database(postgres_server, "not_moved")
    wrong = tmp_path / "wrong.zip"
    with zipfile.ZipFile(ARCHIVE) as archive, zipfile.ZipFile(wrong, "w") as copy:
        manifest = json.loads(archive.read(MANIFEST))
        manifest["rows"]["trajectories_turn"] += 1
        for name in manifest["members"]:
            copy.writestr(name, archive.read(name))
        copy.writestr(MANIFEST, json.dumps(manifest))
    home = tmp_path / "home"
    home.mkdir()
    with served(url, home), pytest.raises(BackupError, match="rows of trajectories_turn arrived"):
        restore_backup(read_archive(wrong, home), home)
    with psycopg.connect(url) as connection:
        assert _columns(connection) == []
    assert list((home / "runs").iterdir()) == []
    with (
        served(moved.url, tmp_path),
        pytest.raises(BackupError, match=r"database moved is not empty: it has \d+ tables"),
    ):
        read_archive(ARCHIVE, tmp_path)


def test_an_older_preview_has_to_be_updated_first() -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        manifest = read_archive(ARCHIVE, None).manifest
        assert archive.testzip() is None
    manifest.migrations.remove(("runs", "0023_claimed_by"))
    with pytest.raises(BackupError, match="Update that installation to ccb229f6"):
        preview_conversion.is_preview(manifest)


@pytest.mark.parametrize(
    ("meanings", "config", "changed"),
    [
        (0, {"algorithm": {"estimator": "reinforce_plus_plus"}}, {"algorithm.estimator": "reinforce_plus_plus_verl"}),
        (1, {"algorithm": {"estimator": "reinforce_plus_plus"}}, {}),
        (1, {"kind": "sft"}, {}),
        (
            2,
            {"policy": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}, "environment": {"cells": "located"}},
            {"rollout.format_line": "placeholders"},
        ),
        (None, {"policy": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}}, {}),
    ],
)
def test_a_run_that_began_keeps_what_its_settings_meant(
    meanings: int | None, config: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = RunConfig.model_validate(config)
    after = RunConfig.model_validate(preview_conversion.current_config(before.model_dump(mode="json"), meanings))
    assert {name: now for name, _, now in before.differences(after)} == changed


def _count(connection: psycopg.Connection[Any], table: str) -> int:
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    assert row is not None
    return int(row[0])


def _columns(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """Table, name, type, default and nullability of all columns."""
    return connection.execute(
        "SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY 1, 2"
    ).fetchall()
