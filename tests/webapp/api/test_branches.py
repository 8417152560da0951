"""Questions to policies about trajectories over HTTP: asked, answered as a worker does, listed, deleted, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers, Program, problem
from tests.webapp.conftest import People, create_run
from tests.webapp.page_requests import play, visitors
from trainer.journal.branches import Branches, Influences, Played, Share, TurnInfluence, TurnValue, Values
from webapp.branching.models import BranchQuestion
from webapp.ingest.branch_rows import do_begin_branches, do_store_played
from webapp.runs import worker_requests
from webapp.runs.models import Checkpoint, Run, Worker
from webapp.teams.models import Team
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db
SOLVED = Share(solved=1, samples=2, share=0.5, low=0.09, high=0.91)


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    play(module_run, 2)


@pytest.fixture
def attempt(story: None, run: Run) -> Trajectory:
    found = Trajectory.objects.filter(run=run, turn_count__gte=3).order_by("pk").first()
    assert found is not None
    Checkpoint.objects.create(run=run, iteration=1, path="", bytes=0, time=timezone.now())
    return found


def ask(caller: Program, attempt: Trajectory, **question: Any) -> Any:
    return caller.post("/api/branches", {"trajectory": attempt.slug, "turn": 1} | question)


def claimed(slug: str) -> BranchQuestion:
    """The question in the hands of a worker."""
    now = timezone.now()
    worker, _ = Worker.objects.get_or_create(name="worker@here", defaults={"started_at": now, "last_seen_at": now})
    question = BranchQuestion.objects.get(slug=slug)
    assert worker_requests.do_claim(question, worker)
    return question


def answered(question: BranchQuestion, result: Branches | Values | Influences) -> None:
    stored = result.model_dump(mode="json", exclude={"id"})
    done = {"state": BranchQuestion.State.DONE, "result": stored, "answered_at": timezone.now()}
    worker_requests.held(question).update(done=question.total, used_checkpoint=1, encoded=False, **done)


def played(question: BranchQuestion, branch: int, turns: int, *, success: bool) -> list[Played]:
    """The events of a branch that a policy played on for some turns."""
    first = question.turn or 0
    events = [journal_builder.turn("branch", first + number, f"Plan {number}.") for number in range(turns)]
    ended = journal_builder.end("branch", first + turns, success)
    return [Played(id=question.slug, branch=branch, event=event) for event in (*events, ended)]


def test_a_question_is_asked_answered_as_trajectories_and_deleted(callers: Callers, attempt: Trajectory) -> None:
    question = {"samples": 2, "temperature": 0, "change": {"thought": "Left."}, "fresh_luck": True, "checkpoint": 1}
    asked = ask(callers.owner, attempt, **question)
    assert asked.status_code == 202, asked.content
    body = asked.json()
    assert body | question | {"change": body["change"]} == body
    assert body["change"] == {"state": None, "thought": "Left.", "answer": None}
    assert (body["kind"], body["turn"], body["total"], body["author"]) == ("branch", 1, 2, "ada")
    assert (body["state"], body["result"], body["branches"]) == ("queued", None, [])
    assert body["message"].startswith("No worker is running")
    assert body["url"].endswith(f"/t/{attempt.slug}?turn=2")
    again = ask(callers.owner, attempt, **question).json()
    assert (again["slug"], BranchQuestion.objects.count()) == (body["slug"], 1)

    path = f"/api/branches/{body['slug']}"
    row = claimed(body["slug"])
    assert do_begin_branches(row)
    assert do_store_played(row, played(row, 0, 2, success=True))
    worker_requests.do_report(row, done=1)
    partly = callers.reader.get(path).json()
    assert (partly["state"], partly["message"]) == ("running", "A worker plays on: 1 of 2 done.")
    assert [branch["status"] for branch in partly["branches"]] == ["success", "waiting"]
    assert do_store_played(row, played(row, 1, 1, success=False))
    answered(row, Branches(solved=SOLVED, failed=0))

    body = callers.viewer.get(path).json()
    assert (body["state"], body["done"], body["used_checkpoint"], body["encoded"]) == ("done", 2, 1, False)
    assert body["message"] == "Answered by the weights after 1 iteration. The dialogue has the recorded token ids."
    assert body["result"] == {"type": "branches", "id": row.slug, "solved": SOLVED.model_dump(), "failed": 0}
    first, second = body["branches"]
    assert (first["number"], first["status"], first["total_reward"], first["turns"]) == (0, "success", 10.0, 3)
    assert (second["number"], second["status"], second["end"], second["turns"]) == (1, "failed", "turns", 2)
    assert [turn["turn"] for turn in first["new_turns"]] == [1, 2]
    assert first["new_turns"][1] == {
        "turn": 2,
        "thought": "Plan 1.",
        "answer": "Right",
        "actions": ["Right"],
        "problem": None,
    }

    branch = callers.viewer.get(f"/api/trajectories/{first['slug']}").json()
    recorded = callers.viewer.get(f"/api/trajectories/{attempt.slug}").json()
    assert (branch["trajectory"]["split"], branch["question"], recorded["question"]) == ("branch", row.slug, None)
    assert branch["turns"][0] == recorded["turns"][0]
    assert branch["turns"][1]["thought"] == "Plan 0."
    assert callers.viewer.get(f"/api/trajectories/{first['slug']}/tokens").json()["sampled_after"] == 1
    listed = callers.viewer.get(f"/api/runs/{attempt.run.slug}/trajectories?limit=100").json()["items"]
    assert {item["split"] for item in listed} <= {"train", "eval"}

    assert callers.owner.call("DELETE", path).status_code == 204
    assert callers.owner.get(path).status_code == 404
    assert callers.owner.get(f"/api/trajectories/{first['slug']}").status_code == 404, "deleted with its question"


def test_a_branch_is_asked_like_any_trajectory(callers: Callers, attempt: Trajectory, people: People) -> None:
    question = {"samples": 1, "temperature": 0, "checkpoint": 1}
    above = claimed(ask(callers.owner, attempt, **question).json()["slug"])
    assert do_begin_branches(above)
    assert do_store_played(above, played(above, 0, 2, success=True))
    path = f"/api/branches/{above.slug}"
    (branch,) = callers.owner.get(path).json()["branches"]
    refused = ask(callers.owner, attempt, trajectory=branch["slug"], turn=2)
    assert problem(refused)["message"].startswith("A policy can play on from a branch when")
    answered(above, Branches(solved=SOLVED, failed=0))

    asked = ask(callers.owner, attempt, trajectory=branch["slug"], turn=2, samples=1)
    body = asked.json()
    assert (asked.status_code, body["trajectory"], body["temperature"]) == (202, branch["slug"], 0)
    assert (body["turn"], body["checkpoint"], body["weights_run"]) == (2, 1, None)
    shared = ask(callers.owner, attempt, trajectory=branch["slug"], samples=1).json()
    assert (shared["slug"], shared["trajectory"]) == (above.slug, attempt.slug), "the position belongs to the attempt"
    assert ask(callers.viewer, attempt, trajectory=branch["slug"], turn=2).status_code == 403
    assert ask(callers.outsider, attempt, trajectory=branch["slug"], turn=2).status_code == 404
    below = claimed(body["slug"])
    assert do_begin_branches(below)
    assert do_store_played(below, played(below, 0, 1, success=False))
    answered(below, Branches(solved=SOLVED, failed=0))
    (deep,) = callers.viewer.get(f"/api/branches/{below.slug}").json()["branches"]
    assert [turn["thought"] for turn in deep["new_turns"]] == ["Plan 0."]
    played_on = callers.viewer.get(f"/api/trajectories/{deep['slug']}").json()
    assert [turn["thought"] for turn in played_on["turns"]][1:] == ["Plan 0.", "Plan 0."]
    assert played_on["question"] == below.slug
    (listed,) = callers.viewer.get(f"/api/trajectories/{branch['slug']}/branches").json()["items"]
    assert (listed["slug"], listed["state"]) == (below.slug, "done")

    elsewhere = create_run(people, "Theirs")
    Run.objects.filter(pk=elsewhere.pk).update(team=Team.objects.get(name="Elsewhere"))
    BranchQuestion.objects.filter(pk=above.pk).update(weights_run=elsewhere)
    assert ask(callers.owner, attempt, trajectory=branch["slug"], turn=2).status_code == 404
    assert callers.owner.call("DELETE", path).status_code == 204
    for gone in (f"/api/branches/{below.slug}", f"/api/trajectories/{deep['slug']}"):
        assert callers.owner.get(gone).status_code == 404, gone


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("value", Values(turns=[TurnValue(turn=0, solved=SOLVED, fall=0.5)], outcome=False, decisive=0)),
        (
            "thoughts",
            Influences(
                turns=[
                    TurnInfluence(
                        turn=0,
                        actions={"own": {"Left": 2}, "none": {"Right": 1, "Left": 1}},
                        distances={"own": 0, "none": 0.5},
                        influence=0.5,
                        follows_false_claims=None,
                        other=None,
                        false=None,
                        claims=0,
                        kept_claims=0,
                    )
                ],
                influence=0.5,
                follows_false_claims=None,
            ),
        ),
    ],
)
def test_questions_about_all_turns_have_answers_of_their_kind(
    callers: Callers, attempt: Trajectory, kind: str, result: Values | Influences
) -> None:
    asked = ask(callers.owner, attempt, kind=kind, samples=2, turn=None).json()
    assert (asked["total"], asked["turn"]) == (2 * attempt.turn_count, None)
    answered(claimed(asked["slug"]), result)
    body = callers.reader.get(f"/api/branches/{asked['slug']}").json()
    assert (body["result"], body["branches"]) == (result.model_dump(mode="json") | {"id": asked["slug"]}, [])


def test_a_failed_question_says_why_and_can_be_asked_again(
    callers: Callers, attempt: Trajectory, people: People
) -> None:
    slug = ask(callers.owner, attempt).json()["slug"]
    worker_requests.do_fail(claimed(slug), "/data/runs/secret is no folder.")
    path = f"/api/branches/{slug}"
    assert callers.viewer.get(path).json()["message"] == "/data/runs/secret is no folder."
    assert ask(callers.owner, attempt).json()["slug"] != slug
    Run.objects.update(visibility=Run.Visibility.LINK)
    body = json.loads(visitors(people).outsider.get(path).content)
    assert (body["message"], body["author"]) == ("The reason is visible to the run's team only.", None)


@pytest.mark.parametrize(
    ("question", "field", "message"),
    [
        ({"turn": 99}, "turn", "The attempt has "),
        ({"turn": None}, "turn", "The attempt has "),
        ({"turn": -1}, "turn", "at least 0"),
        ({"samples": 65}, "samples", "at most 64"),
        ({"temperature": 11}, "temperature", "at most 10"),
        ({"change": {"thought": "Left.", "answer": "Left"}}, "change", "Change one of state, thought and answer."),
        ({"change": {"answer": ""}}, "change", "The changed text is empty."),
        ({"change": {"mood": "good"}}, "change.mood", ""),
        ({"kind": "value"}, "turn", "Changes apply to one position"),
        ({"kind": "guess"}, "kind", ""),
    ],
)
def test_an_impossible_value_is_refused_with_its_field(
    callers: Callers, attempt: Trajectory, question: dict[str, Any], field: str, message: str
) -> None:
    answer = ask(callers.owner, attempt, **question)
    assert (answer.status_code, list(problem(answer)["fields"])) == (422, [field]), answer.content
    assert message in problem(answer)["fields"][field]
    assert not BranchQuestion.objects.exists()


def test_an_attempt_that_no_policy_can_play_on_from_is_refused(callers: Callers, attempt: Trajectory) -> None:
    Trajectory.objects.filter(pk=attempt.pk).update(finished_seq=None)
    answer = ask(callers.owner, attempt)
    assert (answer.status_code, problem(answer)["code"]) == (409, "refused")
    assert problem(answer)["message"] == "A policy can play on from here when the attempt has ended."
    Trajectory.objects.filter(pk=attempt.pk).update(finished_seq=attempt.finished_seq)
    Run.objects.filter(pk=attempt.run_id).update(imported=True)
    assert "checkpoints are not on this site" in problem(ask(callers.owner, attempt))["message"]


def test_weights_come_from_runs_whose_checkpoints_the_caller_may_read(
    callers: Callers, attempt: Trajectory, people: People
) -> None:
    mine = create_run(people, "Other weights")
    asked = ask(callers.owner, attempt, weights_run=mine.slug, checkpoint=0)
    assert (asked.status_code, asked.json()["weights_run"]) == (202, mine.slug)
    assert ask(callers.owner, attempt, weights_run=attempt.run.slug).json()["weights_run"] is None
    theirs = create_run(people, "Theirs")
    theirs.team, theirs.visibility = Team.objects.get(name="Elsewhere"), Run.Visibility.LINK
    theirs.save()
    assert ask(callers.owner, attempt, weights_run=theirs.slug).status_code == 404
    assert json.loads(visitors(people).owner.get(f"/api/runs/{theirs.slug}").content)["title"] == "Theirs"
    mine.imported = True
    mine.save()
    refused = ask(callers.owner, attempt, weights_run=mine.slug, checkpoint=1)
    assert problem(refused)["message"].startswith("The policy of that run cannot play: ")


def test_only_readers_of_the_attempt_see_questions_and_only_writers_ask(callers: Callers, attempt: Trajectory) -> None:
    slug = ask(callers.owner, attempt).json()["slug"]
    path, listed = f"/api/branches/{slug}", f"/api/trajectories/{attempt.slug}/branches"
    for caller, status in ((callers.reader, 403), (callers.viewer, 403), (callers.outsider, 404)):
        assert ask(caller, attempt, samples=3).status_code == status
        assert caller.call("DELETE", path).status_code == status
    for place in (path, listed):
        assert callers.viewer.get(place).status_code == 200
        assert callers.outsider.get(place).status_code == 404
    Run.objects.update(visibility=Run.Visibility.LINK)
    assert callers.outsider.get(path).status_code == 404, "a token is of one team"
    assert BranchQuestion.objects.count() == 1


def test_questions_are_listed_newest_first_page_by_page(
    callers: Callers, attempt: Trajectory, django_assert_max_num_queries: Any
) -> None:
    asked = [ask(callers.owner, attempt, samples=number).json()["slug"] for number in (1, 2, 3)]
    path = f"/api/trajectories/{attempt.slug}/branches?limit=2"
    with django_assert_max_num_queries(7):  # however many wait
        page = callers.viewer.get(path).json()
    assert [item["slug"] for item in page["items"]] == asked[:0:-1]
    last = callers.viewer.get(f"{path}&cursor={page['next_cursor']}").json()
    assert ([item["slug"] for item in last["items"]], last["next_cursor"]) == (asked[:1], None)
    assert list(problem(callers.viewer.get(f"{path}&cursor=abc"))["fields"]) == ["cursor"]
