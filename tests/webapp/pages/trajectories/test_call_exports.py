"""Calls of tools in downloads: with their results, in every kind that has turns."""

from __future__ import annotations

import io
import json

import pyarrow.parquet as pq

from tests.webapp.page_requests import Visitors
from tests.webapp.pages.trajectories.test_export_views import download
from tests.webapp.trajectories.shared_trajectory import story, trajectory, who
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

__all__ = ["story", "trajectory", "who"]


def test_calls_of_tools_and_their_results_are_exported(run: Run, trajectory: Trajectory, who: Visitors) -> None:
    made = {
        "tool": "search",
        "arguments": {"query": "“moons”"},
        "result": "Tavi: 2\nOra: 0",
        "failed": False,
    }
    unread = {"tool": "", "result": "Error: the call is not valid JSON"}
    turn = trajectory.turns.order_by("number")[0]
    first = {"text": "x", "status": "executed", "name": "x", "reward": 0.0, "effective": True}
    turn.event["actions"] = [first | {"call": made}, first | {"call": unread}, first]
    turn.save()

    lines = map(json.loads, download(who.viewer, f"/runs/{run.slug}/export/jsonl").splitlines())
    written = next(line for line in lines if line["id"] == trajectory.slug)["turns"][0]["actions"]
    assert [action.get("call") for action in written] == [made, unread, None]

    table = pq.read_table(io.BytesIO(download(who.viewer, f"/runs/{run.slug}/export/parquet")))
    rows = {row["id"]: row for row in table.to_pylist()}
    calls = [action["call"] for action in rows[trajectory.slug]["turns"][0]["actions"]]
    assert calls[0] == made | {"arguments": '{"query":"“moons”"}'}
    assert calls[1:] == [unread | {"arguments": "{}", "failed": False}, None]

    text = who.viewer.get(f"/t/{trajectory.slug}/export/txt").content.decode()
    assert "        Result:\n            Tavi: 2\n            Ora: 0\n" in text
