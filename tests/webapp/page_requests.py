"""Page requests as each kind of visitor, and a played run, for the tests of the views."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from tests.webapp import recorded_journal
from tests.webapp.conftest import People
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.teams import user_sessions
from webapp.teams.models import User


@dataclass(frozen=True)
class Visitors:
    """Clients of the owner, a viewer, a member of another team, and an anonymous visitor."""

    owner: Client
    viewer: Client
    outsider: Client
    anonymous: Client


def visitors(people: People) -> Visitors:
    return Visitors(*map(logged_in, (people.owner, people.viewer, people.outsider)), Client())


def logged_in(user: User) -> Client:
    """A client with a session of the user, without the queries of a login and of the record of its first page."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    user_sessions._recorded[session.session_key] = math.inf
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return client


def play(run: Run, finished: int = 1, playing_rounds: int | None = None) -> Run:
    """Play `finished` iterations of the run, optionally with a partial one after them."""
    config = recorded_journal.RunConfig.model_validate(run.config)
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    recorded_journal.write(run.folder, config, finished, playing_rounds=playing_rounds)
    run.refresh_from_db()
    JournalTailer(run).drain()
    run.refresh_from_db()
    return run


def assert_private(address: str, who: Visitors, *, post: bool = False) -> None:
    """Asserts 404 for outsiders and a login redirect for anonymous visitors."""
    outsider = who.outsider.post(address) if post else who.outsider.get(address)
    response = who.anonymous.post(address) if post else who.anonymous.get(address)
    assert outsider.status_code == 404, f"an outsider gets {outsider.status_code} at {address}"
    assert response.headers.get("Location", "").startswith("/login"), f"anonymous gets {response} at {address}"


@pytest.fixture
def who(people: People) -> Visitors:
    return visitors(people)
