"""People, teams and runs for the tests of the site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import django
import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

django.setup()  # pytest loads this file before it configures anything; models can be imported only after it

from trainer.config.run import RunConfig  # noqa: E402
from webapp.core import publisher  # noqa: E402
from webapp.runs.models import Run  # noqa: E402
from webapp.teams.actions import do_create_team, do_create_user, do_set_role  # noqa: E402
from webapp.teams.models import Membership, Team, User  # noqa: E402


@dataclass(frozen=True)
class People:
    """A team with its owner and a read-only member, and an outsider."""

    team: Team
    owner: User
    viewer: User
    outsider: User


@pytest.fixture
def people(db: None, settings: Settings) -> People:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one is slow on purpose
    owner = do_create_user("ada", "a long secret")
    viewer = do_create_user("grace", "a long secret")
    outsider = do_create_user("mallory", "a long secret")
    team = do_create_team("Agents", owner)
    do_set_role(team, viewer, Membership.Role.VIEWER)
    do_create_team("Elsewhere", outsider)
    return People(team, owner, viewer, outsider)


@pytest.fixture
def run(people: People) -> Run:
    """A queued run without a message to the workers."""
    config = RunConfig(iterations=4)
    config.rollout.groups, config.rollout.group_size = 2, 2
    return Run.objects.create(
        team=people.team,
        author=people.owner,
        title="Trial",
        config=config.model_dump(mode="json"),
        environment="Sokoban",
        iterations=4,
    )


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
