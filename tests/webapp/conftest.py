"""People, teams and runs for the tests of the site.

Tests of a module that only read one played run share it: a fixture of the module that requests `module_run` plays it
once, in a transaction around all tests of the module, and `run` is that run for each test that requests the fixture.
What a test changes in the database is rolled back after it; one that changes files requests `own_files`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings as django_settings
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.test import override_settings
from pytest_django import DjangoDbBlocker, Settings

django.setup()  # pytest loads this file before it configures anything; models can be imported only after it

from trainer.config.run import RunConfig  # noqa: E402
from webapp.core import publisher  # noqa: E402
from webapp.runs.models import Run  # noqa: E402
from webapp.teams.models import Membership, Team, User  # noqa: E402
from webapp.trajectories.render.drawing_queue import DRAWINGS  # noqa: E402


@dataclass(frozen=True)
class People:
    """A team with its owner and a read-only member, and an outsider."""

    team: Team
    owner: User
    viewer: User
    outsider: User


FAST_HASHER = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""The real one is slow on purpose."""
SHARED = pytest.StashKey[People]()


@pytest.fixture
def people(request: pytest.FixtureRequest, db: None, settings: Settings) -> People:
    settings.PASSWORD_HASHERS = FAST_HASHER
    shared = request.node.getparent(pytest.Module).stash.get(SHARED, None)
    return deepcopy(shared) if shared else _create_people()


def _create_people() -> People:
    password = make_password("a long secret")
    names = ("ada", "grace", "mallory")
    owner, viewer, outsider = User.objects.bulk_create(User(username=name, password=password) for name in names)
    team, elsewhere = Team.objects.bulk_create(
        [Team(name="Agents", creator=owner), Team(name="Elsewhere", creator=outsider)]
    )
    Membership.objects.bulk_create(
        Membership(team=where, user=user, role=role)
        for where, user, role in (
            (team, owner, Membership.Role.ADMIN),
            (team, viewer, Membership.Role.VIEWER),
            (elsewhere, outsider, Membership.Role.ADMIN),
        )
    )
    return People(team, owner, viewer, outsider)


@pytest.fixture
def run(request: pytest.FixtureRequest, people: People) -> Run:
    """A queued run without a message to the workers, or the module's if the test requests a fixture with it."""
    if "module_run" in request.fixturenames:
        return Run.objects.get(pk=request.getfixturevalue("module_run").pk)
    return create_run(people)


@cache
def _config() -> dict[str, Any]:
    config = RunConfig(iterations=4)
    config.rollout.groups, config.rollout.group_size = 2, 2
    return config.model_dump(mode="json")


def create_run(people: People, title: str = "Trial") -> Run:
    """A queued run of the team, by its owner."""
    return Run.objects.create(
        team=people.team,
        author=people.owner,
        title=title,
        config=deepcopy(_config()),
        environment="Sokoban",
        iterations=4,
    )


@pytest.fixture(scope="module")
def module_people(
    request: pytest.FixtureRequest,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[People]:
    """The people of a module, in a transaction that ends with the module, and its own data folder."""
    folder = tmp_path_factory.mktemp("module")
    with django_db_blocker.unblock(), override_settings(ECHOSCOPE_DATA_DIR=folder), transaction.atomic():
        with override_settings(PASSWORD_HASHERS=FAST_HASHER):
            request.node.stash[SHARED] = people = _create_people()
        yield people
        del request.node.stash[SHARED]
        transaction.set_rollback(True)


@pytest.fixture(scope="module")
def module_run(module_people: People) -> Run:
    """A queued run of a module."""
    return create_run(module_people)


@pytest.fixture
def own_files(module_run: Run, tmp_path: Path, settings: Settings) -> None:
    """Copies the module's data folder for a test that changes files."""
    settings.ECHOSCOPE_DATA_DIR = shutil.copytree(settings.ECHOSCOPE_DATA_DIR, tmp_path / "data")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the site from asking the Hugging Face Hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture(autouse=True)
def _own_models_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps workers of tests from the models of this machine."""
    monkeypatch.setenv("ECHOSCOPE_MODELS", str(django_settings.ECHOSCOPE_DATA_DIR / "model-store"))


@pytest.fixture(autouse=True)
def _flush_messages() -> Iterator[None]:
    """Keeps messages of one test from reaching the next."""
    yield
    publisher.publisher().flush()


@pytest.fixture(autouse=True)
def _draw_anew() -> None:
    """Keeps pictures of one test from the next, which may have changed what they show."""
    DRAWINGS.files.clear()
