"""Studies through the API: launch, results, steering, sharing, export, and errors by field."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.studies.played import finish, runs_of
from webapp.runs.models import Run
from webapp.studies.models import Study
from webapp.teams.models import User

GRID: dict[str, Any] = {
    "kind": "grid",
    "preset": "bandit-starpo_s-pocket",
    "axes": [{"setting": "algorithm.kl_coef", "values": [0, 0.01]}],
    "seeds": 3,
}


def launch(callers: Callers, body: dict[str, Any]) -> Study:
    answer = callers.owner.post("/api/studies", body)
    assert answer.status_code == 201, answer.content
    return Study.objects.get(slug=answer.json()["slug"])


def test_a_grid_is_launched_read_and_judged(callers: Callers) -> None:
    study = launch(callers, GRID)
    for number, run in enumerate(runs_of(study, "arm-1")):
        finish(run, 0.5 + number / 100)
    for number, run in enumerate(runs_of(study, "arm-2")):
        finish(run, 0.8 + number / 100)
    found = callers.reader.get(f"/api/studies/{study.slug}").json()
    assert [arm["success"] for arm in found["arms"]] == pytest.approx([0.51, 0.81])
    assert found["arms"][0]["deviation"] == pytest.approx(0.01)
    assert found["arms"][1]["changes"] == {"algorithm.kl_coef": 0.01}
    assert found["arms"][0]["runs"][0]["slug"] == runs_of(study, "arm-1")[0].slug
    (verdict,) = found["verdicts"]
    assert (verdict["verdict"], verdict["firm"], verdict["complete"]) == ("yes", True, 3)
    assert found["runs"] == {"finished": 6}
    listed = callers.reader.get("/api/studies?text=KL").json()["items"]
    assert [one["slug"] for one in listed] == [study.slug]


def test_a_study_of_the_paper_has_its_figures_and_a_search_its_plan(callers: Callers) -> None:
    paper = launch(callers, {"kind": "catalogue", "study": "figure-9", "scale": "smoke", "seeds": 1})
    found = callers.owner.get(f"/api/studies/{paper.slug}").json()
    assert {"what": "final success", "value": "20.3%", "environment": "sokoban", "arm": "starpo_s"} in found["paper"]
    space = [{"setting": "optimizer.policy_lr", "low": 1e-5, "high": 1e-2, "log": True}]
    search = launch(callers, {"kind": "bayesian", "preset": "bandit-starpo_s-pocket", "space": space, "trials": 7})
    found = callers.owner.get(f"/api/studies/{search.slug}").json()
    assert (found["plan"]["trials"], found["plan"]["seeds"], found["arms"]) == (7, 1, [])


def test_runs_follow_together_and_a_wrong_state_is_a_conflict(callers: Callers) -> None:
    study = launch(callers, GRID)
    paused = callers.owner.post(f"/api/studies/{study.slug}/control", {"action": "pause"}).json()
    assert (paused["changed"], paused["study"]["runs"]) == (6, {"paused": 6})
    again = callers.owner.post(f"/api/studies/{study.slug}/control", {"action": "pause"})
    assert again.status_code == 409
    assert problem(again)["message"] == "This study is paused: it cannot pause now."
    cancelled = callers.owner.post(f"/api/studies/{study.slug}/control", {"action": "cancel"}).json()
    assert cancelled["study"]["runs"] == {"cancelled": 6}


def test_a_repeated_key_launches_one_study(callers: Callers) -> None:
    headers = {"Idempotency_Key": "one"}
    first = callers.owner.post("/api/studies", GRID, **headers)
    second = callers.owner.post("/api/studies", GRID, **headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["slug"] == second.json()["slug"]
    assert Run.objects.count() == 6
    other = callers.owner.post("/api/studies", GRID | {"seeds": 4}, **headers)
    assert (other.status_code, problem(other)["code"]) == (409, "key_reused")


def test_a_shared_study_shows_outsiders_no_team_and_no_closed_runs(callers: Callers) -> None:
    study = launch(callers, GRID)
    assert callers.owner.call("PATCH", f"/api/studies/{study.slug}", {"visibility": "link"}).status_code == 200
    assert callers.anonymous.get(f"/api/studies/{study.slug}").status_code == 401
    assert callers.owner.get(f"/api/studies/{study.slug}").json()["plan"]["config"]["iterations"]
    browser = Client()
    browser.force_login(User.objects.get(username="mallory"))
    outside = browser.get(f"/api/studies/{study.slug}")
    assert (outside.status_code, outside.json()["team"]) == (200, None)
    assert not any(run["slug"] for arm in outside.json()["arms"] for run in arm["runs"])
    assert "config" not in outside.json()["plan"]
    assert outside.json()["plan"]["axes"] == GRID["axes"]
    export = callers.owner.get(f"/api/studies/{study.slug}/export/markdown")
    assert export.content.decode().startswith(f"# {study.title}")
    assert callers.owner.get(f"/api/studies/{study.slug}/export/pdf").status_code == 422


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"axes": []}, "axes", "at least 1"),
        ({"axes": [{"setting": "algorithm.kl_coef", "values": ["much"]}]}, "axes", "does not fit"),
        ({"axes": [{"setting": "seed", "values": [1, 2]}]}, "axes", "choose the number of seeds"),
        ({"seeds": 0}, "seeds", "at least 1"),
        ({"preset": "absent"}, "preset", "must be one of"),
        ({"metric": "absent"}, "metric", "not a metric"),
        ({"overrides": {"policy.model": "/etc/passwd"}}, "config", "policy.model"),
        ({"kind": "catalogue"}, "kind", "study, scale, seeds"),
        ({"kind": "catalogue", "preset": None, "axes": [], "study": "figure-99"}, "study", "figure-9"),
        ({"kind": "catalogue", "preset": None, "axes": [], "study": "figure-9", "scale": "paper"}, "scale", "GPU"),
        ({"kind": "random", "space": [{"setting": "iterations", "low": 5}]}, "space", "either"),
    ],
)
def test_errors_name_the_field_and_launch_nothing(
    change: dict[str, Any], field: str, words: str, callers: Callers
) -> None:
    answer = callers.owner.post("/api/studies", GRID | change)
    assert answer.status_code == 422, answer.content
    fields = problem(answer)["fields"]
    assert any(name.startswith(field) and words in text for name, text in fields.items()), fields
    assert not Study.objects.exists()
