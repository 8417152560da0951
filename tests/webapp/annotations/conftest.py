"""A played trajectory, and a member of its team next to the owner and the viewer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import play
from webapp.runs.models import Run
from webapp.teams.actions import do_create_user, do_set_role
from webapp.teams.models import Membership, User
from webapp.trajectories.models import Trajectory


@dataclass(frozen=True)
class Member:
    """A member who launches and tags, but does not manage the team."""

    user: User
    client: Client


@pytest.fixture
def member(people: People) -> Member:
    user = do_create_user("linus", "a long secret", email="linus@example.org")
    do_set_role(people.team, user, Membership.Role.MEMBER)
    client = Client()
    client.force_login(user)
    return Member(user, client)


@pytest.fixture
def trajectory(run: Run, tmp_path: Path, settings: Settings) -> Trajectory:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    play(run)
    found = Trajectory.objects.filter(run=run).order_by("-turn_count", "pk").first()
    assert found is not None
    return found
