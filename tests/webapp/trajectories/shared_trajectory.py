"""A played trajectory and share links to it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.webapp.page_requests import Visitors, play, who
from webapp.runs.models import Run
from webapp.trajectories.models import ShareLink, Trajectory

__all__ = ["PERSON", "link", "share", "story", "trajectory", "who"]

PERSON = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    play(module_run)


@pytest.fixture
def trajectory(story: None, run: Run) -> Trajectory:
    return longest(run)


def longest(run: Run) -> Trajectory:
    """Its trajectory with the most turns."""
    return Trajectory.objects.filter(run=run).order_by("-turn_count", "pk")[0]


def share(client: Client, trajectory: Trajectory, **form: Any) -> ShareLink:
    """The newest link, after posting the form."""
    client.post(f"/t/{trajectory.slug}/share", form)
    return ShareLink.objects.filter(trajectory=trajectory).latest("pk")


@pytest.fixture
def link(trajectory: Trajectory, who: Visitors) -> ShareLink:
    return share(who.owner, trajectory)
