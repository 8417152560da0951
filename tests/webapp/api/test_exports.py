"""Exports over the API: the files of the pages, for programs with a token."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from pytest_django import Settings

from tests.webapp.api.api_clients import Callers, Program, problem
from tests.webapp.page_requests import play
from webapp.runs.models import Run
from webapp.trajectories.exports import export_run, run_downloads
from webapp.trajectories.models import Trajectory


@pytest.fixture
def played(run: Run) -> Run:
    return play(run, 2)


def file(caller: Program, path: str) -> bytes:
    response: Any = caller.get(path)
    assert response.status_code == 200, response.content
    content: bytes = response.getvalue()
    return content


def test_trajectories_and_metrics_are_exported_as_on_the_page(callers: Callers, played: Run) -> None:
    path = f"/api/runs/{played.slug}/export"
    table = pq.read_table(io.BytesIO(file(callers.viewer, f"{path}/parquet")))
    assert (table.num_rows, table.schema) == (played.trajectories.count(), export_run.TRAJECTORIES)
    some = file(callers.viewer, f"{path}/jsonl?split=train&iteration=1").splitlines()
    assert some
    assert {(line["split"], line["iteration"]) for line in map(json.loads, some)} == {("train", 1)}
    assert file(callers.viewer, f"{path}/metrics.csv").startswith(b"name,")
    assert file(callers.viewer, f"{path}/journal") == (played.folder / "journal.jsonl").read_bytes()


def test_one_trajectory_is_a_document_a_transcript_or_an_animation(callers: Callers, played: Run) -> None:
    trajectory = Trajectory.objects.filter(run=played)[0]
    path = f"/api/trajectories/{trajectory.slug}/export"
    assert json.loads(file(callers.viewer, f"{path}/json"))["id"] == trajectory.slug
    assert file(callers.viewer, f"{path}/txt").startswith(b"Sokoban")
    assert file(callers.viewer, f"{path}/webp")[:4] == b"RIFF"
    unknown = callers.viewer.get(f"{path}/pdf")
    assert (unknown.status_code, list(problem(unknown)["fields"])) == (422, ["kind"])


def test_refusals_are_errors_of_the_api(
    callers: Callers, played: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/api/runs/{played.slug}/export"
    settings.ECHOSCOPE_MAX_EXPORT_MB = 1
    monkeypatch.setattr(run_downloads, "MEGABYTE", 1000)
    large = callers.viewer.get(f"{path}/jsonl")
    assert (large.status_code, problem(large)["code"]) == (413, "too_large")
    assert "at most 1 MB are exported at once" in problem(large)["message"]
    (played.folder / "journal.jsonl").unlink()
    missing = callers.viewer.get(f"{path}/journal")
    assert missing.status_code == 404
    assert "is not on this machine" in problem(missing)["message"]
