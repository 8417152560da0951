"""Tokens of a trajectory over HTTP: read, and computed on request."""

from __future__ import annotations

import pytest

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.page_requests import play
from webapp.runs.models import Checkpoint, Run
from webapp.trajectories.models import TokenArrays, TokenComputation, Trajectory

pytestmark = pytest.mark.django_db


def test_recorded_tokens_are_read_and_missing_ones_requested(callers: Callers, run: Run) -> None:
    play(run, 2)
    trajectory = Trajectory.objects.filter(run=run, group__kept=True, iteration=1).order_by("pk").first()
    assert trajectory is not None
    path = f"/api/trajectories/{trajectory.slug}/tokens"
    answer = callers.reader.get(path).json()
    assert (answer["state"], answer["computed_from"], answer["sampled_after"]) == ("recorded", None, 0)
    count = sum(segment["tokens"] for segment in answer["segments"])
    assert count == len(answer["ids"]) == len(answer["texts"]) == len(answer["logprobs"])
    TokenArrays.objects.all().delete()
    answer = callers.reader.get(path).json()
    assert (answer["state"], answer["ids"], answer["logprobs"]) == ("missing", [], None)
    assert "The journal has no tokens" in answer["message"]
    assert callers.reader.call("POST", path).status_code == 403
    assert callers.viewer.call("POST", path).status_code == 403
    assert callers.outsider.call("POST", path).status_code == 404
    for _ in range(2):
        requested = callers.owner.call("POST", path)
        assert requested.status_code == 202
        assert requested.json()["state"] == "queued"
    assert TokenComputation.objects.count() == 1
    assert callers.reader.get(path).json()["message"].startswith("No worker is running")
    Checkpoint.objects.all().delete()
    later = Trajectory.objects.filter(run=run, iteration=2).first()
    assert later is not None
    refused = callers.owner.call("POST", f"/api/trajectories/{later.slug}/tokens")
    assert refused.status_code == 409
    assert "no checkpoint of this run is kept" in problem(refused)["message"]
