"""A played trajectory, and a member of its team next to the owner and the viewer."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.test import Client

from tests.webapp.conftest import People
from tests.webapp.page_requests import play
from tests.webapp.trajectories.shared_trajectory import longest
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


@pytest.fixture(scope="module")
def played(module_run: Run) -> None:
    play(module_run)


@pytest.fixture
def trajectory(played: None, run: Run) -> Trajectory:
    return longest(run)
