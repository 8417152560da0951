"""Connections to the database of pages that compute for long, or send for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import AsyncClient

from tests.webapp.page_requests import Visitors, play
from tests.webapp.trajectories.shared_trajectory import PERSON, link, longest, who
from webapp.pages.trajectories import film_views, related_views
from webapp.runs.models import Run
from webapp.trajectories.exports import export_run, trajectory_downloads
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.render import preview
from webapp.trajectories.render.drawing_queue import DRAWINGS

__all__ = ["link", "who"]


@pytest.fixture
def trajectory(run: Run) -> Trajectory:
    return longest(play(run))


@pytest.mark.django_db(transaction=True)
def test_drawing_and_comparing_hold_no_connection(
    link: ShareLink, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []

    def observed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            held.append(connection.connection is not None)
            return function(*arguments)

        return call

    monkeypatch.setattr(DRAWINGS, "draw", observed(DRAWINGS.draw))
    for module, name in (
        (trajectory_downloads, "animate"),
        (preview, "draw_preview"),
        (film_views, "draw_film"),
        (related_views, "compare_turns"),
    ):
        monkeypatch.setattr(module, name, observed(getattr(module, name)))
    DRAWINGS.files.clear()
    slug = link.trajectory.slug
    pictures = (f"/s/{link.token}/export/gif", f"/s/{link.token}/picture.png", f"/t/{slug}/film.png")
    for address in (*pictures, f"/t/{slug}/diff/{slug}"):
        assert who.viewer.get(address).status_code == 200
    assert held == [False] * 7


@pytest.mark.django_db(transaction=True)
async def test_an_asynchronous_server_streams_chunks_too(
    run: Run, trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_run, "ROW_GROUP", 1)
    client = AsyncClient(headers={"user-agent": PERSON})
    client.cookies = who.viewer.cookies
    response = await client.get(f"/runs/{run.slug}/export/jsonl")
    assert isinstance(response, StreamingHttpResponse)
    assert response.is_async
    lines = b"".join([chunk async for chunk in response]).decode().splitlines()
    assert len(lines) == await sync_to_async(run.trajectories.count)()
