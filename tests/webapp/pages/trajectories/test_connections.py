"""Pages that compute for long give their database connection back first: there are few, and others need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from tests.webapp.page_requests import Visitors
from tests.webapp.trajectories.shared_trajectory import link, trajectory, who
from webapp.pages.trajectories import film_views, related_views
from webapp.trajectories.exports import trajectory_downloads
from webapp.trajectories.models import ShareLink
from webapp.trajectories.render import preview
from webapp.trajectories.render.drawing_queue import DRAWINGS

__all__ = ["link", "trajectory", "who"]


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
