"""Quotas of teams and runs, in the form and in the API: queued and running runs, tags, iterations, imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from tests.webapp.pages.runs.test_worker_views import worker
from trainer.config.run import RunConfig
from webapp.runs.actions import do_request
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Run
from webapp.runs.queue import order
from webapp.worker.claims import do_claim_next

pytestmark = pytest.mark.django_db
__all__ = ["callers", "who"]

LAUNCH = {"preset": "sokoban-starpo_s-pocket"}


def test_a_team_queues_a_limited_number_of_runs(
    run: Run, people: People, who: Visitors, callers: Callers, settings: Settings
) -> None:
    settings.ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM = 2
    assert callers.owner.post("/api/runs", LAUNCH).status_code == 201
    answer = callers.owner.post("/api/runs", LAUNCH)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "quota")
    assert answer.json()["error"]["message"].startswith("2 runs of this team already wait in the queue")
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    page = who.owner.post("/runs/new", fields)
    assert page.status_code == 409
    assert "Nothing was launched. 2 runs of this team already wait" in page.content.decode()
    assert fields_of(page.content.decode())["launch_key"] == fields["launch_key"], "the form keeps what was entered"
    assert callers.outsider.post("/api/runs", LAUNCH).status_code == 201, "each team has its own queue"
    do_request(run, "pause")
    assert callers.owner.post("/api/runs", LAUNCH).status_code == 201
    warned = who.owner.post(f"/runs/{run.slug}/resume", follow=True).content.decode()
    assert "already wait in the queue" in warned
    assert callers.owner.post(f"/api/runs/{run.slug}/control", {"action": "resume"}).json()["error"]["code"] == "quota"
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED


def test_a_repeated_launch_returns_its_run_even_if_the_queue_is_full(people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM = 1
    first = do_create_run(people.team, people.owner, RunConfig(), launch_key="once")
    assert do_create_run(people.team, people.owner, RunConfig(), launch_key="once") == first


def test_a_team_trains_a_limited_number_of_runs(people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_RUNNING_RUNS_PER_TEAM = 1
    one = worker("a@here", slots=4)
    config = RunConfig.model_validate({"policy": {"device": "cpu"}})
    first, second = (do_create_run(people.team, people.owner, config) for _ in range(2))
    theirs = do_create_run(people.outsider.memberships.get().team, people.outsider, config)
    Run.objects.update(queue="training", gpus=0)
    claimed = [do_claim_next(one, timezone.now()) for _ in range(3)]
    assert [run and run.pk for run in claimed] == [first.pk, theirs.pk, None]
    words = order.queue_positions(timezone.now())[second.pk].text
    assert words.endswith("; its team already trains 1 run, its maximum: it starts after one of them")
    Run.objects.filter(pk=first.pk).update(state=Run.State.FINISHED)
    again = do_claim_next(one, timezone.now())
    assert again is not None
    assert again.pk == second.pk


def test_a_run_has_a_limited_number_of_tags(run: Run, callers: Callers, tmp_path: Path) -> None:
    tags = [f"tag{number}" for number in range(21)]
    answer = callers.owner.post("/api/runs", LAUNCH | {"overrides": {"tags": tags}})
    assert "at most 20 tags, and this one has 21" in answer.json()["error"]["message"]
    assert callers.owner.call("PATCH", f"/api/runs/{run.slug}", {"tags": tags}).status_code in {409, 422}
    start = journal_builder.started()
    start.config["tags"] = tags
    data = journal_builder.write(tmp_path, start).read_bytes()
    answer = callers.owner.post("/api/runs/import", data)
    assert answer.status_code == 422
    assert "21 tags, and 20 are allowed" in answer.json()["error"]["message"]
    assert list(Run.objects.all()) == [run]
    assert callers.owner.post("/api/runs", LAUNCH | {"overrides": {"tags": tags[:20]}}).status_code == 201


def test_the_operator_may_limit_iterations(callers: Callers, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_ITERATIONS_PER_RUN = 100
    answer = callers.owner.post("/api/runs", LAUNCH | {"overrides": {"iterations": 101}})
    assert "at most 100 iterations, and this one plans 101" in answer.json()["error"]["message"]
    assert callers.owner.post("/api/runs", LAUNCH | {"overrides": {"iterations": 100}}).status_code == 201


def test_a_team_imports_a_limited_number_of_runs_a_day(
    people: People, callers: Callers, settings: Settings, tmp_path: Path
) -> None:
    settings.ECHOSCOPE_MAX_IMPORTS_PER_DAY = 1
    data = journal_builder.write(tmp_path, *journal_builder.whole_run(1)).read_bytes()
    assert callers.owner.post("/api/runs/import", data, Idempotency_Key="one").status_code == 201
    answer = callers.owner.post("/api/runs/import", data)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "quota")
    assert "The limit is 1 a day" in answer.json()["error"]["message"]
    assert callers.owner.post("/api/runs/import", data, Idempotency_Key="one").status_code == 200, "the same run"
    run = Run.objects.get()
    assert callers.owner.call("PUT", f"/api/runs/{run.slug}/journal?offset={len(data)}", b"").status_code == 200
