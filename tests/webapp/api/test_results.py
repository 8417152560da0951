"""Results of a run over HTTP: metrics, alarms, checkpoints, evaluations, log."""

from __future__ import annotations

import pytest

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.page_requests import play
from webapp.runs.models import MetricPoint, Run
from webapp.runs.run_files import RunFiles


@pytest.fixture
def curve(run: Run) -> Run:
    """A run with a metric of a hundred iterations, one of them a spike."""
    values = {n: 99.0 if n == 37 else n / 10 for n in range(1, 101)}
    MetricPoint.objects.bulk_create(
        MetricPoint(run=run, name="reward/mean", iteration=n, value=value, tokens=10 * n, seconds=n)
        for n, value in values.items()
    )
    return run


def test_metrics_are_listed_with_description_and_latest_value(callers: Callers, curve: Run) -> None:
    (metric,) = callers.viewer.get(f"/api/runs/{curve.slug}/metrics").json()
    assert (metric["name"], metric["title"], metric["points"], metric["last_iteration"], metric["last"]) == (
        "reward/mean",
        "Mean reward",
        100,
        100,
        10.0,
    )
    assert metric["meaning"]


def test_each_iteration_is_a_point_below_the_limit(callers: Callers, curve: Run) -> None:
    (metric,) = callers.owner.get(f"/api/runs/{curve.slug}/metrics/points?name=reward/mean").json()
    assert [point["last"] for point in metric["points"]] == [99.0 if n == 37 else n / 10 for n in range(1, 101)]
    assert all(point["min"] == point["max"] == point["last"] for point in metric["points"])


def test_buckets_keep_spikes_and_cover_every_iteration_once(callers: Callers, curve: Run) -> None:
    path = f"/api/runs/{curve.slug}/metrics/points?name=reward/mean&first=1&last=100&buckets=7"
    points = callers.owner.get(path).json()[0]["points"]
    assert len(points) == 7
    covered = [n for point in points for n in range(point["first_iteration"], point["last_iteration"] + 1)]
    assert covered == list(range(1, 101))
    assert max(point["max"] for point in points) == 99.0
    assert points[-1]["last"] == 10.0
    assert (points[0]["tokens"], points[0]["seconds"]) == (150, 15.0)


def test_a_range_and_several_names_can_be_combined(callers: Callers, curve: Run) -> None:
    path = f"/api/runs/{curve.slug}/metrics/points?name=reward/mean&name=no/such&first=10&last=12"
    first, second = callers.owner.get(path).json()
    assert [point["first_iteration"] for point in first["points"]] == [10, 11, 12]
    assert second == {"name": "no/such", "points": []}


def test_a_range_that_ends_before_it_begins_is_refused(callers: Callers, curve: Run) -> None:
    answer = callers.owner.get(f"/api/runs/{curve.slug}/metrics/points?name=a&first=9&last=3")
    assert problem(answer)["fields"] == {"last": "must be at least 9, the first iteration"}
    without = callers.owner.get(f"/api/runs/{curve.slug}/metrics/points")
    assert (without.status_code, list(problem(without)["fields"])) == (422, ["name"])


def test_evaluations_checkpoints_alarms_and_log_belong_to_the_run(callers: Callers, run: Run) -> None:
    play(run, 1)
    run.alarms.create(seq=1, iteration=1, state="watch", message="It falls.", time=run.created_at, evidence={"a": 1.0})
    run.checkpoints.create(iteration=1, path="checkpoints/000001", bytes=7, time=run.created_at)
    RunFiles(run.folder).log.write_text("first line\nlast line\n")
    base = f"/api/runs/{run.slug}"
    (evaluation,) = callers.viewer.get(f"{base}/evaluations").json()
    assert (evaluation["suite"], evaluation["iteration"], evaluation["success"], evaluation["prompts"]) == (
        "Sokoban",
        0,
        0.35,
        256,
    )
    assert callers.viewer.get(f"{base}/alarms").json()[0]["message"] == "It falls."
    assert callers.viewer.get(f"{base}/checkpoints").json()[0]["path"] == "checkpoints/000001"
    assert callers.viewer.get(f"{base}/log").json() == {"text": "first line\nlast line\n"}
