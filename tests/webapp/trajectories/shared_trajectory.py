"""A played trajectory and share links to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.webapp.page_requests import Visitors, play, who
from webapp.runs.models import Run
from webapp.trajectories.models import ShareLink, Trajectory

__all__ = ["PERSON", "link", "share", "trajectory", "who"]

PERSON = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def trajectory(run: Run, tmp_path: Path, settings: Settings) -> Trajectory:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    play(run)
    found = Trajectory.objects.filter(run=run).order_by("-turn_count").first()
    assert found is not None
    return found


def share(client: Client, trajectory: Trajectory, **form: Any) -> ShareLink:
    """The newest link, after posting the form."""
    client.post(f"/t/{trajectory.slug}/share", form)
    return ShareLink.objects.filter(trajectory=trajectory).latest("pk")


@pytest.fixture
def link(trajectory: Trajectory, who: Visitors) -> ShareLink:
    return share(who.owner, trajectory)
