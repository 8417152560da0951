"""API clients for each kind of caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from tests.webapp.conftest import People
from webapp.teams.actions import do_create_token
from webapp.teams.models import Team, User


@dataclass(frozen=True)
class Program:
    """Calls the API with a token, or without one."""

    secret: str = ""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        """Response to JSON, or to the bytes in `body`."""
        sent_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.secret:
            sent_headers["Authorization"] = f"Bearer {self.secret}"
        raw = isinstance(body, bytes)
        content_type = sent_headers.pop("Content-Type", "application/x-ndjson" if raw else "application/json")
        client = Client(headers=sent_headers)
        return client.generic(
            method, path, body if raw else "" if body is None else client._encode_json(body, content_type), content_type
        )

    def get(self, path: str) -> HttpResponse:
        return self.call("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> HttpResponse:
        return self.call("POST", path, {} if body is None else body, **headers)


def program(team: Team, user: User, *scopes: str) -> Program:
    """A client with a new token of the user in the team; both scopes by default."""
    _, secret = do_create_token(team, user, "test", scopes or ("read", "write"))
    return Program(secret)


@dataclass(frozen=True)
class Callers:
    """Clients of the owner, of the owner with a read-only token, a viewer, an outsider; one without a token."""

    owner: Program
    reader: Program
    viewer: Program
    outsider: Program
    anonymous: Program


@pytest.fixture
def callers(people: People) -> Callers:
    elsewhere = Team.objects.get(name="Elsewhere")
    return Callers(
        program(people.team, people.owner),
        program(people.team, people.owner, "read"),
        program(people.team, people.viewer),
        program(elsewhere, people.outsider),
        Program(),
    )


def problem(answer: HttpResponse) -> dict[str, Any]:
    """Detail of an error response."""
    body: dict[str, Any] = answer.json()["error"]
    return body
