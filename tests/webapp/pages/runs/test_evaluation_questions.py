"""Questions about an evaluation on its tab: asked, answered in a sentence with rows, cancelled, refused."""

from __future__ import annotations

import re

import pytest

from tests.webapp import evaluation_answers as made
from tests.webapp import journal_builder
from tests.webapp.explorer.test_run_result import finish
from tests.webapp.fragments import compact
from tests.webapp.page_requests import Visitors, who
from webapp.branching.models import EvaluationQuestion
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.runs import worker_requests
from webapp.runs.models import Checkpoint, MetricPoint, Run
from webapp.trajectories.models import Trajectory

__all__ = ["who"]
State = EvaluationQuestion.State


@pytest.fixture
def evaluated(run: Run) -> Run:
    """A finished run whose last evaluation, after iteration 2, has two lost attempts."""
    return finish(run, "+---", "++--")


def tab(run: Run, visitor: str, who: Visitors) -> str:
    return compact(getattr(who, visitor).get(f"/runs/{run.slug}/evaluation").content.decode())


def ask(run: Run, who: Visitors, **values: str) -> EvaluationQuestion | None:
    posted = {"kind": "corrections", "suite": "Sokoban", "iteration": "2"} | values
    response = who.owner.post(f"/runs/{run.slug}/evaluation/ask", posted)
    assert response.status_code == 302
    assert response["Location"].startswith(f"/runs/{run.slug}/evaluation#asked-")
    return EvaluationQuestion.objects.filter(run=run).order_by("-pk").first()


def metrics(run: Run) -> dict[str, float]:
    found = MetricPoint.objects.filter(run=run, name__regex="^(corrections|thoughts)/", iteration=2)
    return dict(found.values_list("name", "value"))


def test_a_question_is_asked_answered_in_a_sentence_and_deleted(evaluated: Run, who: Visitors) -> None:
    run = evaluated
    page = tab(run, "owner", who)
    assert "Correct what it misread: Sokoban after iteration 2" in page
    assert "Correct what it misread" not in tab(run, "viewer", who), "viewers do not ask"
    question = ask(run, who)
    assert question is not None
    assert (question.samples, question.most_attempts, question.iteration) == (4, 100, 2)
    assert ask(run, who) == question, "the same question again"
    page = tab(run, "viewer", who)
    assert "No worker is running" in page
    assert f'hx-get="/runs/{run.slug}/evaluation/questions/{question.slug}?shown=' in page

    made.claim(question)
    worker_requests.do_report(question, done=3, total=16)
    row = f"/runs/{run.slug}/evaluation/questions/{question.slug}"
    running = compact(who.viewer.get(row).content.decode())
    assert "3 of 16 continuations" in running
    shown = re.search(r"shown=(\d+)", running)
    assert shown is not None
    assert who.viewer.get(f"{row}?shown={shown[1]}").status_code == 204

    lost = list(Trajectory.objects.filter(run=run, split="eval", iteration=2, status="failed").order_by("key"))
    worker_requests.do_give_back(question)
    made.answer(question, made.corrections(*(attempt.key for attempt in lost)))
    page = tab(run, "viewer", who)
    assert (
        "Correcting the first false position wins 75.0% of 2 lost attempts, 25.0% without "
        "(+50.0 points, 95% interval +12.5 to +75.0)." in page
    )
    for attempt in lost:
        assert f'<a href="/t/{attempt.slug}?turn=1">Puzzle {attempt.group.number + 1}</a>' in page
    assert page.count("<td>Box 2,3</td>") == page.count("<td>Box 3,5</td>") == 2
    assert "3 of 4" in page
    assert ">ada," not in compact(who.outsider.get(f"/runs/{run.slug}/evaluation").content.decode())
    assert metrics(run) == {"corrections/won": 0.75, "corrections/won_without": 0.25}
    do_rebuild(run)
    assert metrics(run) == {"corrections/won": 0.75, "corrections/won_without": 0.25}, "not in the journal"

    assert who.owner.post(f"{row}/delete").status_code == 302
    assert metrics(run) == {}
    assert who.viewer.get(row).content == b"", "its row disappears from open pages"


def test_the_influence_of_thoughts_is_a_sentence(evaluated: Run, who: Visitors) -> None:
    question = ask(evaluated, who, kind="thoughts")
    assert question is not None
    assert (question.kind, question.samples, question.most_attempts) == ("thoughts", 8, 24)
    made.answer(question, made.survey("e2-0", "gone"))
    page = tab(evaluated, "owner", who)
    assert "The influence of its thoughts on the next actions is 0.50 (95% interval 0.25 to 0.75)." in page
    assert "Mean of 2 attempts of 9." in page
    assert metrics(evaluated) == {"thoughts/influence": 0.5}, "the other mean is not known"
    assert 'value="corrections"' in page, "the other question can still be asked"
    assert 'value="thoughts"' not in page


def test_nothing_to_correct_and_failures_are_sentences(evaluated: Run, who: Visitors) -> None:
    question = ask(evaluated, who)
    assert question is not None
    made.answer(question, made.corrections())
    assert "0 of 4 lost attempts misread a position that can be put right." in tab(evaluated, "owner", who)
    assert metrics(evaluated) == {}
    EvaluationQuestion.objects.update(result={"type": "corrections"})
    assert "The answer of the worker cannot be read." in tab(evaluated, "owner", who)
    EvaluationQuestion.objects.update(state=State.FAILED, error="Out of memory on worker 7.")
    page = tab(evaluated, "owner", who)
    assert "Out of memory on worker 7." in page
    assert 'value="corrections"' in page, "it can be asked again"
    evaluated.visibility = Run.Visibility.LINK
    evaluated.save()
    assert "worker 7" not in tab(evaluated, "outsider", who)


def test_what_cannot_be_asked_says_why(evaluated: Run, who: Visitors) -> None:
    def refused(reason: str, **values: str) -> None:
        ask(evaluated, who, **values)
        assert reason in tab(evaluated, "owner", who)
        assert not EvaluationQuestion.objects.exists()

    refused("This run has no such evaluation.", iteration="77")
    refused("This question does not exist.", kind="riddle")
    refused("This question does not exist.", iteration="two")
    Trajectory.objects.filter(run=evaluated, iteration=2).update(status="success")
    refused("No attempt of this evaluation was lost.")
    Checkpoint.objects.filter(run=evaluated).delete()
    refused("no checkpoint of this run is kept")
    Run.objects.filter(pk=evaluated.pk).update(imported=True)
    refused("this run was trained elsewhere")
    assert "evaluation/ask" not in tab(evaluated, "owner", who)


def test_a_repeated_evaluation_forgets_its_questions(evaluated: Run, who: Visitors) -> None:
    question = ask(evaluated, who)
    assert question is not None
    journal_builder.write(evaluated.folder, journal_builder.started(attempt=2, from_iteration=1, evaluated=0))
    Run.objects.filter(pk=evaluated.pk).update(state=Run.State.STARTING)
    evaluated.refresh_from_db()
    JournalTailer(evaluated).drain()
    assert not EvaluationQuestion.objects.filter(pk=question.pk).exists()
