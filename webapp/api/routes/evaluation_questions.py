"""Endpoints of questions to policies about evaluations: what corrections win, and the influence of thoughts."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status

from webapp.api import cursors
from webapp.api.auth import Caller, caller
from webapp.api.errors import Problem, refused
from webapp.api.evaluation_question_serializers import evaluation_questions_out
from webapp.api.schemas.evaluation_question_schemas import (
    EvaluationQuestionOut,
    EvaluationQuestionPage,
    EvaluationQuestionSlug,
    NewEvaluationQuestion,
)
from webapp.api.schemas.shared_schemas import Cursor, Limit, RunSlug
from webapp.branching.asked import AskedWrongly
from webapp.branching.asked_evaluation import AskedOfEvaluation
from webapp.branching.evaluation_actions import do_ask_about_evaluation, do_delete_evaluation_question
from webapp.branching.models import EvaluationQuestion
from webapp.runs.models import readable_by
from webapp.teams.access import require_writer

router = Router(tags=["branches"])


class EvaluationQuestionFilter(Schema):
    """The page of a list of questions."""

    limit: Limit = 30
    cursor: Cursor = None


@router.post(
    "/runs/{slug}/questions",
    response={202: EvaluationQuestionOut} | refused(409),
    operation_id="ask_about_evaluation",
    summary="Ask a policy about an evaluation",
)
def ask_about_evaluation(
    request: HttpRequest, slug: RunSlug, payload: NewEvaluationQuestion
) -> Status[EvaluationQuestionOut]:
    """Ask what correcting misread positions wins, or whether thoughts matter. A worker answers, within minutes.

    The same question again returns the first one, with its answer, unless that failed. 409 if nothing can be asked
    about the evaluation, 422 for an impossible value: the message says why.
    """
    requester = caller(request)
    run = requester.run(slug)
    require_writer(requester.user, run.team_id)
    try:
        question = do_ask_about_evaluation(run, AskedOfEvaluation(**payload.model_dump()), requester.user)
    except AskedWrongly as error:
        raise Problem(422, str(error), fields={error.field: str(error)}) from None
    return Status(202, _one(request, _find(requester, question.slug)))


@router.get(
    "/runs/{slug}/questions",
    response={200: EvaluationQuestionPage} | refused(),
    operation_id="list_evaluation_questions",
    summary="List questions about a run's evaluations",
)
def list_evaluation_questions(
    request: HttpRequest, slug: RunSlug, filters: Query[EvaluationQuestionFilter]
) -> EvaluationQuestionPage:
    """Questions with their results, newest first."""
    requester = caller(request)
    questions = _readable(requester).filter(run=requester.run(slug))
    page, following = cursors.newest_first(
        questions, "evaluation questions", filters.cursor, filters.limit, "requested_at"
    )
    return EvaluationQuestionPage(items=evaluation_questions_out(request, page), next_cursor=following)


@router.get(
    "/questions/{slug}",
    response={200: EvaluationQuestionOut} | refused(),
    operation_id="get_evaluation_question",
    summary="Read a question about an evaluation and its answer",
)
def get_evaluation_question(request: HttpRequest, slug: EvaluationQuestionSlug) -> EvaluationQuestionOut:
    """State, progress and result. Read it again until its state is `done` or `failed`."""
    return _one(request, _find(caller(request), slug))


@router.delete(
    "/questions/{slug}",
    response={204: None} | refused(),
    operation_id="delete_evaluation_question",
    summary="Delete a question about an evaluation",
)
def delete_evaluation_question(request: HttpRequest, slug: EvaluationQuestionSlug) -> Status[None]:
    """Cancel a question that has no answer yet, or delete it with its answer."""
    requester = caller(request)
    question = _find(requester, slug)
    require_writer(requester.user, question.run.team_id)
    do_delete_evaluation_question(question)
    return Status(204, None)


def _one(request: HttpRequest, question: EvaluationQuestion) -> EvaluationQuestionOut:
    return evaluation_questions_out(request, [question])[0]


def _readable(requester: Caller) -> QuerySet[EvaluationQuestion]:
    """Return questions about runs that the user may read."""
    readable = EvaluationQuestion.objects.filter(readable_by(requester.user, "run__"))
    return readable.select_related("run", "requested_by")


def _find(requester: Caller, slug: str) -> EvaluationQuestion:
    """Return the question of that slug if the caller may read its run. Raises Problem 404."""
    return requester.find(_readable(requester), slug, "question", "run__team")
