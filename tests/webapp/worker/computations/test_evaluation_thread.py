"""Questions about evaluations, answered by a worker with the real sampler process and with scripted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.patience import wait_until
from tests.webapp.conftest import People
from tests.webapp.worker.computations.test_question_thread import says
from trainer.journal.attempt_lines import lines_of_evaluation
from trainer.journal.branches import Corrections, Survey
from webapp.branching.asked_evaluation import AskedOfEvaluation, Kind
from webapp.branching.evaluation_actions import do_ask_about_evaluation, do_delete_evaluation_question
from webapp.branching.models import EvaluationQuestion
from webapp.runs.models import MetricPoint, Run, Worker
from webapp.trajectories.models import Trajectory
from webapp.worker.computations.evaluation_thread import EvaluationAnswers
from webapp.worker.computations.sampler_process import Command, sampler_command

pytestmark = pytest.mark.django_db(transaction=True)
State = EvaluationQuestion.State
Threads = Callable[..., EvaluationAnswers]


@pytest.fixture
def threads(worker: Worker) -> Iterator[Threads]:
    """Starts threads with a command, and ends them."""
    started: list[EvaluationAnswers] = []

    def start(command: Command = sampler_command) -> EvaluationAnswers:
        started.append(EvaluationAnswers(worker.name, command, pace=0.02))
        started[-1].start()
        return started[-1]

    yield start
    for thread in started:
        thread.stop()


def ended(question: EvaluationQuestion) -> EvaluationQuestion:
    pending = EvaluationQuestion.objects.filter(pk=question.pk, state__in=EvaluationQuestion.PENDING)
    wait_until(lambda: not pending.exists())
    question.refresh_from_db()
    return question


def ask(run: Run, people: People, kind: Kind, **values: int) -> EvaluationQuestion:
    return do_ask_about_evaluation(run, AskedOfEvaluation(kind=kind, **values), people.owner)


def test_the_real_sampler_answers_both_questions(finished: Run, people: People, threads: Threads) -> None:
    Trajectory.objects.filter(run=finished, split="eval").update(status="failed")  # the site asks whatever was lost
    corrections = ask(finished, people, Kind.CORRECTIONS)
    thoughts = ask(finished, people, Kind.THOUGHTS, samples=2)
    threads()
    assert (ended(corrections).error, corrections.used_checkpoint) == ("", 2)
    found = Corrections.model_validate(corrections.result)
    assert (found.iteration, found.suite, found.attempts) == (2, finished.environment, 2)
    assert len(found.rows) == found.correctable <= found.lost

    assert (ended(thoughts).error, thoughts.encoded) == ("", False)
    survey = Survey.model_validate(thoughts.result)
    assert len(survey.rows) == 2
    assert thoughts.done == thoughts.total > 0
    influence = MetricPoint.objects.get(run=finished, name="thoughts/influence")
    assert survey.influence is not None
    assert (influence.iteration, influence.value) == (2, survey.influence.value)
    success = MetricPoint.objects.get(run=finished, iteration=2, name=f"eval/{finished.environment}/success")
    assert (influence.tokens, influence.seconds) == (success.tokens, success.seconds), "at the place of its iteration"
    (warm,) = (finished.folder.parents[1] / EvaluationAnswers.FOLDER).iterdir()
    wait_until(lambda: not list((warm / "attempts").iterdir()))


def test_failures_are_sentences_and_cancelling_ends_the_answer(finished: Run, people: People, threads: Threads) -> None:
    thread = threads(says("say(type='error', id=id, message='the environment differs at turn 2')"))
    question = ask(finished, people, Kind.THOUGHTS)
    assert (ended(question).state, question.error) == (State.FAILED, "The environment differs at turn 2.")
    again = ask(finished, people, Kind.THOUGHTS)
    assert again != question, "a question that failed can be asked again"
    ended(again)
    thread.stop()

    jobs = finished.folder.parents[1] / EvaluationAnswers.FOLDER
    waits = "say(type='progress', id=id, done=3, total=8)\nwhile 'cancel' not in sys.stdin.readline(): pass\n"
    threads(says(f"{waits}say(type='cancelled', id=id)"))
    cancelled = ask(finished, people, Kind.THOUGHTS, samples=1)
    wait_until(lambda: EvaluationQuestion.objects.filter(pk=cancelled.pk, done=3, total=8).exists())
    do_delete_evaluation_question(cancelled)
    wait_until(lambda: all(not list((warm / "attempts").iterdir()) for warm in jobs.iterdir()))
    assert not MetricPoint.objects.filter(run=finished, name__startswith="thoughts/").exists()


def test_only_the_lines_of_the_evaluation_are_sent(finished: Run) -> None:
    lines = (finished.folder / "journal.jsonl").read_bytes().splitlines()
    wanted = list(filter(lines_of_evaluation(2, finished.environment), lines))
    assert len(wanted) < len(lines)
    kinds = [line.split(b'"type":"')[1].split(b'"')[0] for line in wanted]
    assert set(kinds) == {b"run_started", b"group_started", b"turn", b"trajectory_finished", b"trajectory_tokens"}
    assert kinds.count(b"group_started") == kinds.count(b"trajectory_finished") == 2
    assert not list(filter(lines_of_evaluation(2, "Bandit"), [line for line in lines if b"run_started" not in line]))
