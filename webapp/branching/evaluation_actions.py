"""Asking questions about evaluations, cancelling and deleting them, and storing their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from webapp.branching.answer_metrics import do_drop_metrics, do_restore_metrics, do_store_metrics
from webapp.branching.asked_evaluation import (
    AskedOfEvaluation,
    evaluation_refusal,
    find_asked_evaluation,
    numbers_of,
)
from webapp.branching.models import EvaluationQuestion
from webapp.branching.wake import wake_samplers
from webapp.core.database import database_now
from webapp.runs import worker_requests
from webapp.runs.actions import RequestRefused, record_run
from webapp.runs.main_suite import main_suite
from webapp.runs.models import Evaluation, Run
from webapp.teams.models import AuditAction, User

MAX_PENDING = 4
"""Questions about evaluations of a team that wait or are being answered at the same time: each takes minutes."""
MAX_KEPT = 100
"""Questions about the evaluations of one run that are kept with their answers."""

State = EvaluationQuestion.State


@transaction.atomic
def do_ask_about_evaluation(run: Run, asked: AskedOfEvaluation, user: User) -> EvaluationQuestion:
    """Ask a question about an evaluation. The same question, if it did not fail, is returned with its answer.

    Raises:
        RequestRefused: nothing can be asked about the evaluation, or too much was.
        AskedWrongly: a value is impossible.
    """
    Run.objects.select_for_update(no_key=True).only("pk").get(pk=run.pk)
    main = main_suite(Evaluation.objects.filter(run=run), run.environment) if asked.suite is None else asked.suite
    evaluation = find_asked_evaluation(run, asked, main)
    if reason := evaluation_refusal(evaluation, asked.kind):
        raise RequestRefused(reason)
    samples, attempts = numbers_of(asked, evaluation)
    values = {
        "kind": asked.kind,
        "suite": evaluation.suite,
        "iteration": evaluation.iteration,
        "samples": samples,
        "most_attempts": attempts,
    }
    earlier = EvaluationQuestion.objects.filter(run=run, **values).exclude(state=State.FAILED).first()
    if earlier is not None:
        return earlier
    _require_room(run)
    question = EvaluationQuestion.objects.create(run=run, requested_by=user, requested_at=database_now(), **values)
    record_run(AuditAction.RUN_CHANGED, run, asked=asked.kind.value, about=_place(question))
    transaction.on_commit(wake_samplers)
    return question


def _require_room(run: Run) -> None:
    pending = EvaluationQuestion.objects.filter(run__team=run.team_id, state__in=EvaluationQuestion.PENDING)
    if pending.count() >= MAX_PENDING:
        raise RequestRefused(
            f"{MAX_PENDING} questions about evaluations of your team are being answered already: wait for some of them."
        )
    if EvaluationQuestion.objects.filter(run=run).count() >= MAX_KEPT:
        raise RequestRefused(f"{MAX_KEPT} questions about evaluations of this run are kept: delete some of them first.")


@transaction.atomic
def do_delete_evaluation_question(question: EvaluationQuestion) -> None:
    """Cancel a question that waits or is being answered; delete its answer and its metrics otherwise."""
    run = question.run
    EvaluationQuestion.objects.filter(pk=question.pk).delete()
    do_drop_metrics(question)
    do_restore_metrics(run)
    record_run(AuditAction.RUN_CHANGED, run, withdrawn=question.kind, about=_place(question))


def _place(question: EvaluationQuestion) -> str:
    return f"{question.suite} after iteration {question.iteration}"


# -- for the workers ---------------------------------------------------------------------------------------------------


def waiting_evaluation_questions(now: datetime) -> QuerySet[EvaluationQuestion]:
    """Return the questions without a live worker, the oldest first."""
    return worker_requests.waiting(EvaluationQuestion.objects.select_related("run"), now)


@transaction.atomic
def do_store_answer(question: EvaluationQuestion, result: dict[str, Any], **columns: Any) -> bool:
    """Store the answer and its metrics. False if the question was withdrawn or taken over."""
    answered = {"state": State.DONE, "result": result, "answered_at": database_now(), "lease": ""}
    if not worker_requests.do_report(question, **answered, **columns):
        return False
    question.refresh_from_db()
    do_store_metrics(question)
    return True
