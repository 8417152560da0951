"""Questions about attempts of a hosted model, which its endpoint answers through the sandboxed sampler process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.patience import wait_until
from tests.trainer import tiny
from tests.trainer.hosted_server import Reply, Server, completion
from tests.webapp.conftest import People
from trainer.loops import run_factory
from webapp.api.question_status import status_text
from webapp.branching.actions import do_ask
from webapp.branching.asked import Asked, Kind, refusal
from webapp.branching.models import BranchQuestion
from webapp.ingest.tailer import JournalTailer
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Run, Worker
from webapp.trajectories.models import Trajectory
from webapp.trajectories.serialize import turn_events
from webapp.worker.computations.question_thread import QuestionAnswers

pytestmark = pytest.mark.django_db(transaction=True)


def reply(body: dict[str, object]) -> Reply:
    return completion("<think>go</think><answer>Up</answer>", prompt=50, written=9)


@pytest.fixture
def endpoint(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An endpoint that the operator allows, with a key."""
    monkeypatch.setenv("MODELS_KEY", "sesame")
    with Server(reply).running() as server:
        settings.ECHOSCOPE_HOSTED_URLS = [f"{server.url}=MODELS_KEY"]
        yield server


@pytest.fixture
def attempt(endpoint: Server, run: Run, worker: Worker) -> Trajectory:
    """An attempt of three turns in an evaluation of the hosted model."""
    config = tiny.config(
        "pocket",
        kind="evaluate",
        environment={"name": "FrozenLake"},
        rollout={"max_turns": 3, "max_actions_per_turn": 1, "max_actions": 3},
        evaluation={"prompts": 2, "temperature": 0.7},
        hosted={"url": endpoint.url, "model": "m", "api_key_env": "MODELS_KEY"},
    )
    folder = Path(run.folder)
    assert run_factory.run(config, folder, folder / "cache").reason == "completed"
    run.config = config.model_dump(mode="json")
    run.state, run.data_folder = Run.State.STARTING, worker.data_folder
    run.save()
    JournalTailer(run).drain()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    endpoint.bodies.clear()
    endpoint.headers.clear()
    attempts = Trajectory.objects.select_related("group", "run")
    return attempts.filter(run=run, turn_count__gte=2).earliest("pk")


def test_its_endpoint_plays_on(attempt: Trajectory, endpoint: Server, people: People, worker: Worker) -> None:
    question = do_ask(attempt, Asked(turn=1, samples=2), people.owner)
    thread = QuestionAnswers(worker.name, pace=0.02)
    thread.start()
    try:
        wait_until(lambda: not BranchQuestion.objects.filter(pk=question.pk, state__in=question.PENDING).exists())
    finally:
        thread.stop()
    question.refresh_from_db()
    assert (question.error, question.state) == ("", "done")
    assert {headers["Authorization"] for headers in endpoint.headers} == {"Bearer sesame"}
    asked = [body for body in endpoint.bodies if len(body["messages"]) == 4]
    recorded = turn_events(attempt)
    assert [body["messages"][3]["content"] for body in asked] == [recorded[1]["state"]] * 2
    branches = list(Trajectory.with_branches.filter(group=question.group_id).order_by("member"))
    assert [turn_events(branch)[0] for branch in branches] == [recorded[0]] * 2
    assert status_text(question, {}).startswith("Answered by the hosted model m.")
    assert Run.objects.get(pk=attempt.run_id).config["hosted"]["model"] == "m"

    client = Client()
    client.force_login(people.owner)
    page = client.get(reverse("trajectory", args=[attempt.slug])).content.decode()
    assert "those that played it" not in page
    assert "charges what it charges for other requests" in page
    assert "the hosted model m" in page


def test_what_it_cannot_play_is_refused(attempt: Trajectory, people: People, settings: Settings) -> None:
    for asked, reason in (
        (Asked(kind=Kind.THOUGHTS), "continues no text"),
        (Asked.model_validate({"turn": 0, "change": {"thought": "stay"}}), "continues no text"),
        (Asked(turn=0, checkpoint=5), "has no checkpoints"),
    ):
        with pytest.raises(RequestRefused, match=reason):
            do_ask(attempt, asked, people.owner)
    assert not refusal(attempt)
    settings.ECHOSCOPE_HOSTED_URLS = []
    assert "runs of this site may not use" in refusal(attempt)
