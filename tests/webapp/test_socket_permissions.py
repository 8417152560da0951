"""Permissions of every websocket of the site for five kinds of visitors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import AnonymousUser
from pytest_django import Settings

from tests.patience import SECONDS
from tests.webapp.conftest import People
from tests.webapp.full_site_fixture import FullSite, create_full_site
from webapp.asgi import websockets
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)

LISTENS, LOGIN, MISSING = 0, 4403, 4404
SOCKETS = {
    #                       owner    member   viewer   outsider anonymous
    "ws/runs/<str:slug>/": (LISTENS, LISTENS, LISTENS, MISSING, LOGIN),
    "ws/inbox/": (LISTENS, LISTENS, LISTENS, LISTENS, LOGIN),
    "ws/t/<str:slug>/": (LISTENS, LISTENS, LISTENS, MISSING, LOGIN),
}
OPEN = {
    "ws/runs/<str:slug>/": (LISTENS,) * 5,
    "ws/inbox/": (LISTENS, LISTENS, LISTENS, LISTENS, LOGIN),
    "ws/t/<str:slug>/": (LISTENS, LISTENS, LISTENS, MISSING, LOGIN),  # annotations are for the team only
}


@pytest.fixture
def full_site(people: People, run: Run, tmp_path: Path, settings: Settings) -> FullSite:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    return create_full_site(people, run)


def test_every_socket_is_listed() -> None:
    assert {str(route.pattern) for route in websockets.routes} == SOCKETS.keys()


async def connection_result(path: str, user: object) -> int:
    """LISTENS, or the close code of the server."""
    scope = {"type": "websocket", "path": path, "query_string": b"", "headers": [], "subprotocols": [], "user": user}
    socket = ApplicationCommunicator(websockets, scope)
    await socket.send_input({"type": "websocket.connect"})
    await socket.send_input({"type": "websocket.receive", "text": json.dumps({"type": "ping"})})
    while True:
        message = await socket.receive_output(SECONDS)
        if message["type"] == "websocket.close":
            return int(message["code"])
        if message["type"] == "websocket.send" and json.loads(message["text"])["type"] == "pong":
            await socket.send_input({"type": "websocket.disconnect", "code": 1000})
            await socket.wait(SECONDS)
            return LISTENS


async def answers(full_site: FullSite) -> dict[str, tuple[int, ...]]:
    """Results of every visitor at every socket."""
    people = full_site.people
    visitors = [people.owner, full_site.member, people.viewer, people.outsider, AnonymousUser()]
    slugs = {"ws/runs/<str:slug>/": full_site.run.slug, "ws/t/<str:slug>/": full_site.trajectory.slug}
    slugs["ws/inbox/"] = ""
    paths = {pattern: f"/{pattern.replace('<str:slug>', slug)}" for pattern, slug in slugs.items()}
    return {
        pattern: tuple(await asyncio.gather(*(connection_result(path, user) for user in visitors)))
        for pattern, path in paths.items()
    }


async def test_sockets_accept_the_team_only(full_site: FullSite) -> None:
    assert await answers(full_site) == SOCKETS


async def test_sockets_of_a_public_run_accept_all(full_site: FullSite) -> None:
    await sync_to_async(Run.objects.filter(pk=full_site.run.pk).update)(visibility=Run.Visibility.LINK)
    assert await answers(full_site) == OPEN
