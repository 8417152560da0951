"""Questions about evaluations over HTTP: asked, answered as a worker does, listed, deleted, refused; and the client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webapp import evaluation_answers as made
from tests.webapp.api.api_clients import Callers, Program, problem
from tests.webapp.explorer.test_run_result import finish
from webapp.branching.models import EvaluationQuestion
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def evaluated(run: Run) -> Run:
    """A finished run whose last evaluation, after iteration 2, has two lost attempts."""
    return finish(run, "+---", "++--")


def ask(caller: Program, run: Run, **question: Any) -> Any:
    return caller.post(f"/api/runs/{run.slug}/questions", question)


def test_a_question_is_asked_answered_listed_and_deleted(callers: Callers, evaluated: Run) -> None:
    asked = ask(callers.owner, evaluated)
    assert asked.status_code == 202, asked.content
    body = asked.json()
    assert (body["kind"], body["suite"], body["iteration"], body["samples"], body["attempts"]) == (
        ("corrections", "Sokoban", 2, 4, 100)
    )
    assert (body["state"], body["result"], body["author"]) == ("queued", None, "ada")
    assert body["url"].endswith(f"/runs/{evaluated.slug}/evaluation")
    assert ask(callers.owner, evaluated).json()["slug"] == body["slug"]
    named = {"kind": "thoughts", "suite": "Sokoban", "iteration": 0, "samples": 2, "attempts": 3}
    earlier = ask(callers.owner, evaluated, **named).json()
    assert earlier | named == earlier

    row = EvaluationQuestion.objects.get(slug=body["slug"])
    made.answer(row, made.corrections("e2-2", "e2-3"))
    answered = callers.viewer.get(f"/api/questions/{row.slug}").json()
    assert (answered["state"], answered["used_checkpoint"]) == ("done", 2)
    assert answered["message"].startswith("Answered by the weights after 2 iterations.")
    assert answered["result"]["difference"] == {"value": 0.5, "low": 0.125, "high": 0.75}
    assert [item["trajectory"] for item in answered["result"]["rows"]] == ["e2-2", "e2-3"]
    listed = callers.reader.get(f"/api/runs/{evaluated.slug}/questions").json()["items"]
    assert [item["slug"] for item in listed] == [earlier["slug"], body["slug"]]
    points = callers.reader.get(f"/api/runs/{evaluated.slug}/metrics/points?name=corrections/won").json()
    assert "0.75" in str(points)

    assert callers.owner.call("DELETE", f"/api/questions/{row.slug}").status_code == 204
    assert callers.owner.get(f"/api/questions/{row.slug}").status_code == 404


def test_who_may_ask_and_what_cannot_be_asked(callers: Callers, evaluated: Run) -> None:
    assert ask(callers.viewer, evaluated).status_code == 403
    assert ask(callers.reader, evaluated).status_code == 403
    assert ask(callers.outsider, evaluated).status_code == 404
    unknown = ask(callers.owner, evaluated, iteration=7)
    assert (unknown.status_code, problem(unknown)["fields"]) == (
        (422, {"iteration": "This run has no such evaluation."})
    )
    many = ask(callers.owner, evaluated, samples=64, attempts=1000)
    assert (many.status_code, problem(many)["fields"]) == (
        (422, {"attempts": "With 64 samples, a question is about at most 31 attempts."})
    )
    Run.objects.filter(pk=evaluated.pk).update(imported=True)
    refused = ask(callers.owner, evaluated)
    assert refused.status_code == 409
    assert "this run was trained elsewhere" in problem(refused)["message"]
    assert not EvaluationQuestion.objects.exists()
