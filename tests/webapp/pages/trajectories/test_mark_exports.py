"""Exports of runs with the marks of mistakes and the kinds of false claims."""

from __future__ import annotations

import csv
import io
import json

import pyarrow.parquet as pq

from tests.webapp.page_requests import Visitors
from tests.webapp.pages.trajectories.test_export_views import download
from tests.webapp.trajectories.shared_trajectory import link, story, trajectory, who
from webapp.runs.models import Run
from webapp.trajectories.exports import export_run
from webapp.trajectories.models import Trajectory

__all__ = ["link", "story", "trajectory", "who"]


def test_exports_have_the_marks_of_judged_attempts_and_the_kinds_of_claims(
    run: Run, trajectory: Trajectory, who: Visitors
) -> None:
    mark = {"action": 0, "kind": "blunder", "played": "Down", "better": ["Left", "Up"]}
    mark |= {"value": 0.75, "kept": 0.0, "loss": 0.75}
    judged = run.trajectories.filter(turn_count__gt=0).exclude(pk=trajectory.pk).first()
    assert judged is not None
    Trajectory.objects.filter(pk=judged.pk).update(
        worst_mark=3, first_mistake_turn=0, false_claim_kinds=["box_position", "wall"]
    )
    first = judged.turns.get(number=0)
    claims = [{"start": 0, "end": 3, "true": False, "kind": "wall"}, {"start": 4, "end": 5, "true": True}]
    judged.turns.filter(number=0).update(event=first.event | {"claims": claims}, marks=[mark])
    lines = download(who.viewer, f"/runs/{run.slug}/export/jsonl").decode().splitlines()
    documents = {item["id"]: item for item in map(json.loads, lines)}
    found = documents[judged.slug]
    assert (found["worst_mark"], found["first_mistake_turn"]) == ("blunder", 0)
    assert found["false_claim_kinds"] == ["box_position", "wall"]
    assert found["turns"][0]["marks"] == [mark]
    assert {turn["marks"] is None for turn in found["turns"][1:]} <= {False}, "judged, without a mark"
    other = documents[trajectory.slug]
    assert other["worst_mark"] is None
    assert {turn["marks"] for turn in other["turns"]} == {None}, "not judged yet"
    table = pq.read_table(io.BytesIO(download(who.viewer, f"/runs/{run.slug}/export/parquet")))
    assert table.schema == export_run.TRAJECTORIES
    rows = {row["id"]: row for row in table.to_pylist()}
    row = rows[judged.slug]
    assert (row["worst_mark"], row["first_mistake_turn"], row["false_claim_kinds"]) == (
        "blunder",
        0,
        ["box_position", "wall"],
    )
    assert row["turns"][0]["marks"] == [mark]
    assert row["turns"][0]["claims"] == [
        {"start": 0, "end": 3, "true": False, "kind": "wall"},
        {"start": 4, "end": 5, "true": True, "kind": "other"},
    ]
    assert rows[trajectory.slug]["turns"][0]["marks"] is None
    text = download(who.viewer, f"/runs/{run.slug}/export/csv?mark=blunder").decode()
    assert [(line["worst_mark"], line["false_claim_kinds"]) for line in csv.DictReader(io.StringIO(text))] == [
        ("blunder", "box_position wall")
    ]
