"""Fixtures of the websocket tests, which need real transactions."""

import pytest

from tests.webapp.page_requests import play
from tests.webapp.trajectories.shared_trajectory import longest
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory


@pytest.fixture
def trajectory(run: Run) -> Trajectory:
    return longest(play(run))
