"""Questions to policies from the client and the command line, against a real site. Tests answer as a worker does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from echoscope import models
from echoscope.client import Client
from echoscope.errors import Conflict, Invalid, NotFound
from echoscope.questions import Questions
from tests.echoscope.test_cli import shell
from tests.webapp import journal_builder
from tests.webapp.page_requests import play
from trainer.journal.branches import Branches, Influences, Played, Share, TurnInfluence, TurnValue, Values
from webapp.branching.models import BranchQuestion
from webapp.ingest.branch_rows import do_begin_branches, do_store_played
from webapp.runs import worker_requests
from webapp.runs.models import Run, Worker
from webapp.trajectories.models import Trajectory

__all__ = ["shell"]
SOLVED = Share(solved=1, samples=2, share=0.5, low=0.09, high=0.91)


@pytest.fixture
def attempt(run_on_site: Run) -> Trajectory:
    play(run_on_site, 2)
    found = Trajectory.objects.filter(run=run_on_site, turn_count__gte=3).order_by("pk").first()
    assert found is not None
    return found


def answer(result: Branches | Values | Influences | str, *branches: list[Any]) -> BranchQuestion:
    """Answer the waiting question as a worker does; a text is the reason why it fails."""
    now = timezone.now()
    worker, _ = Worker.objects.get_or_create(name="worker@here", defaults={"started_at": now, "last_seen_at": now})
    question = BranchQuestion.objects.get(state=BranchQuestion.State.QUEUED)
    assert worker_requests.do_claim(question, worker)
    if isinstance(result, str):
        worker_requests.do_fail(question, result)
        return question
    if branches:
        assert do_begin_branches(question)
    for number, events in enumerate(branches):
        assert do_store_played(question, [Played(id=question.slug, branch=number, event=event) for event in events])
    done = {
        "state": BranchQuestion.State.DONE,
        "result": result.model_dump(mode="json", exclude={"id"}),
        "answered_at": now,
    }
    worker_requests.held(question).update(done=question.total, used_checkpoint=1, encoded=True, **done)
    return question


def test_a_question_is_asked_watched_listed_and_deleted(
    live_server: LiveServer, secret: str, attempt: Trajectory
) -> None:
    turn = journal_builder.turn("branch", 1, "Plan.")
    ended = journal_builder.end("branch", 2)
    waits: list[float] = []

    def work(seconds: float) -> None:
        waits.append(seconds)
        answer(Branches(solved=SOLVED, failed=0), [turn, ended], [turn, ended])

    with Client(live_server.url, secret, sleep=work) as client:
        asked = client.questions.ask(attempt.slug, turn=1, samples=2, change={"thought": "Left."})
        assert (asked.state, asked.change.thought, asked.result) == ("queued", "Left.", None)
        first, last = client.questions.watch(asked.slug, every=3.0)
        assert (waits, first, last.state) == ([3.0], asked, "done")
        assert isinstance(last.result, models.Branches)
        assert (last.result.solved.share, last.branches[1].new_turns[0].actions) == (0.5, ["Right"])
        assert client.trajectory(last.branches[0].slug).question == asked.slug
        assert [question.slug for question in client.questions.list(attempt.slug)] == [asked.slug]
        client.questions.delete(asked.slug)
        with pytest.raises(NotFound, match=asked.slug):
            client.questions.get(asked.slug)
        with pytest.raises(Invalid) as invalid:
            client.questions.ask(attempt.slug, turn=99)
        assert list(invalid.value.fields) == ["turn"]
        Run.objects.update(imported=True)
        with pytest.raises(Conflict, match="not on this site"):
            client.questions.ask(attempt.slug, turn=0)


def test_branches_are_printed_with_their_turns_and_links(shell: Any, client: Client, attempt: Trajectory) -> None:
    """The command asks what was asked and answered before."""
    client.questions.ask(attempt.slug, turn=1, samples=2, temperature=0, change={"answer": "Up"}, fresh_luck=True)
    solved = [journal_builder.turn("branch", 1, "I  push\nthe box."), journal_builder.end("branch", 2)]
    lost = [journal_builder.turn("branch", 1, "x" * 300), journal_builder.end("branch", 2, success=False)]
    question = answer(Branches(solved=SOLVED, failed=1), solved, lost)
    branches = Trajectory.with_branches.filter(group=question.group_id).order_by("member")
    words = ("branch", attempt.slug, "--turn", "2", "--samples", "2", "--temperature", "0", "--answer", "Up")
    status, out, err = shell(*words, "--fresh-luck")
    assert (status, BranchQuestion.objects.count()) == (0, 1), err
    assert err == "Answered by the weights after 1 iteration. The dialogue has the token ids of its recorded text.\n"
    lines = out.splitlines()
    assert [line.rpartition("/")[2] for line in (lines[0], lines[2])] == [branch.slug for branch in branches]
    assert lines[0].startswith("branch 1: solved, reward 10  http://")
    assert lines[1] == "  turn 2: Right  – I push the box."
    assert lines[2].startswith("branch 2: not solved: turns, reward -1  http://")
    assert lines[3] == f"  turn 2: Right  – {'x' * 200}…"
    assert lines[4] == "1 of 2 solved (50%, 9%–91%), 1 more failed"
    assert lines[5].endswith(f"/t/{attempt.slug}?turn=2")
    assert len(lines) == 6
    printed = json.loads(shell("--json", *words, "--fresh-luck")[1])
    assert (printed["slug"], printed["result"]["failed"]) == (question.slug, 1)


def test_values_and_influences_are_printed_as_tables(shell: Any, client: Client, attempt: Trajectory) -> None:
    client.questions.ask(attempt.slug, "value", samples=2)
    fall = TurnValue(turn=1, solved=SOLVED, fall=0.5)
    answer(Values(turns=[TurnValue(turn=0, solved=SOLVED, fall=0), fall], outcome=False, decisive=1))
    status, out, _ = shell("branch", attempt.slug, "--value", "2")
    assert (status, out.splitlines()[:-1]) == (
        0,
        [
            "turn  solved                           lost",
            "   1  1 of 2 solved (50%, 9%–91%)      +0.00",
            "   2  1 of 2 solved (50%, 9%–91%)      +0.50",
            "the turn of the steepest fall: turn 2",
        ],
    )
    client.questions.ask(attempt.slug, "thoughts", samples=3, checkpoint=0)
    turn = TurnInfluence(
        turn=0,
        actions={"own": {"Left": 2, "Up": 1}, "none": {"Up": 3}},
        distances={"own": 0, "none": 0.67},
        influence=0.67,
        follows_false_claims=None,
        other=None,
        false=None,
        claims=0,
        kept_claims=0,
    )
    answer(Influences(turns=[turn], influence=0.67, follows_false_claims=None))
    status, out, _ = shell("branch", attempt.slug, "--thoughts", "3", "--checkpoint", "0")
    assert (status, out.splitlines()[1:-1]) == (
        0,
        [
            "   1       0.67        –      –  Left (2)",
            "influence of the thought 0.67, of false claims – (0: none, 1: it decides)",
        ],
    )


def test_misuse_and_failures_are_reported(
    shell: Any, client: Client, attempt: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "name it with --turn" in shell("branch", attempt.slug, "--value", "2", "--fresh-luck")[2]
    assert "--turn counts from 1, not 0" in shell("branch", attempt.slug, "--turn", "0")[2]
    assert not BranchQuestion.objects.exists()
    asked = client.questions.ask(attempt.slug, turn=0)
    answer("Turn 1 reads another message now.")
    failed = client.questions.get(asked.slug)
    monkeypatch.setattr(Questions, "get", lambda self, question: failed)
    status, out, err = shell("branch", attempt.slug, "--turn", "1")
    assert (status, out, err.splitlines()[-1]) == (1, "", "error: Turn 1 reads another message now.")
