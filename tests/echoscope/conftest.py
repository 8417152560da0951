"""A real site for the client, served over HTTP from the test database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django.live_server_helper import LiveServer

from echoscope.client import Client
from tests.webapp.conftest import People, people, run
from webapp.runs.models import Run
from webapp.teams.actions import do_create_token

__all__ = ["people", "run"]


@pytest.fixture
def people_on_site(transactional_db: None, people: People) -> People:
    return people


@pytest.fixture
def secret(people_on_site: People) -> str:
    """A token of the owner with all scopes."""
    return do_create_token(people_on_site.team, people_on_site.owner, "test", ["read", "write"])[1]


@pytest.fixture
def client(live_server: LiveServer, secret: str) -> Iterator[Client]:
    with Client(live_server.url, secret, sleep=lambda seconds: None) as client:
        yield client


@pytest.fixture
def run_on_site(people_on_site: People, run: Run) -> Run:
    return run
