"""Endpoints of questions to policies about recorded trajectories: play on, value by play, influence of thoughts."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status

from webapp.api import cursors
from webapp.api.auth import Caller, caller
from webapp.api.branch_serializers import question_detail, questions_out
from webapp.api.errors import Problem, refused
from webapp.api.schemas.branch_schemas import NewQuestion, QuestionDetail, QuestionPage, QuestionSlug
from webapp.api.schemas.shared_schemas import Cursor, Limit, TrajectorySlug
from webapp.branching.actions import do_ask, do_delete_question
from webapp.branching.asked import Asked, AskedWrongly
from webapp.branching.defaults import played_by
from webapp.branching.models import BranchQuestion
from webapp.runs.models import readable_by
from webapp.teams.access import require_writer

router = Router(tags=["branches"])


class QuestionFilter(Schema):
    """The page of a list of questions."""

    limit: Limit = 30
    cursor: Cursor = None


@router.post(
    "/branches",
    response={202: QuestionDetail} | refused(409),
    operation_id="ask_question",
    summary="Play on from a position of a trajectory",
)
def ask_question(request: HttpRequest, payload: NewQuestion) -> Status[QuestionDetail]:
    """Ask for branches, the value of every turn by play, or the influence of the thoughts. A worker answers.

    The same question again returns the first one, with its answer, unless that failed. Turns are counted from 0. 409 if
    nothing can be asked about the trajectory, 422 for an impossible value: the message says why.

    Up to the turn from which it was played on, a branch is the trajectory that it continues: a question about such a
    turn is asked about that trajectory.
    """
    requester = caller(request)
    trajectory = requester.trajectory(payload.trajectory)
    require_writer(requester.user, trajectory.run.team_id)
    weights = None if payload.weights_run is None else requester.run_of_team(payload.weights_run)
    if weights is None and payload.checkpoint is None and (run := played_by(trajectory, trajectory).weights_run):
        requester.run_of_team(run.slug)
    asked = Asked.model_validate(payload.model_dump(exclude={"trajectory", "weights_run"}))
    try:
        question = do_ask(trajectory, asked, requester.user, weights)
    except AskedWrongly as error:
        raise Problem(422, str(error), fields={error.field: str(error)}) from None
    return Status(202, question_detail(request, _find(requester, question.slug)))


@router.get(
    "/branches/{slug}",
    response={200: QuestionDetail} | refused(),
    operation_id="get_question",
    summary="Read a question and its answer",
)
def get_question(request: HttpRequest, slug: QuestionSlug) -> QuestionDetail:
    """State, progress, result and branches. Read it again until its state is `done` or `failed`."""
    return question_detail(request, _find(caller(request), slug))


@router.delete(
    "/branches/{slug}", response={204: None} | refused(), operation_id="delete_question", summary="Delete a question"
)
def delete_question(request: HttpRequest, slug: QuestionSlug) -> Status[None]:
    """Cancel a question that has no answer yet, or delete it with its answer and its branches."""
    requester = caller(request)
    question = _find(requester, slug)
    require_writer(requester.user, question.trajectory.run.team_id)
    do_delete_question(question)
    return Status(204, None)


@router.get(
    "/trajectories/{slug}/branches",
    response={200: QuestionPage} | refused(),
    operation_id="list_questions",
    summary="List questions about a trajectory",
)
def list_questions(request: HttpRequest, slug: TrajectorySlug, filters: Query[QuestionFilter]) -> QuestionPage:
    """Questions with their results, newest first, without their branches."""
    requester = caller(request)
    trajectory = requester.trajectory(slug)
    questions = _readable(requester).filter(trajectory=trajectory)
    page, following = cursors.newest_first(questions, "questions", filters.cursor, filters.limit, "requested_at")
    return QuestionPage(items=questions_out(request, page), next_cursor=following)


def _readable(requester: Caller) -> QuerySet[BranchQuestion]:
    """Return questions about trajectories that the user may read."""
    related = ("trajectory__run", "weights_run", "requested_by")
    return BranchQuestion.objects.filter(readable_by(requester.user, "trajectory__run__")).select_related(*related)


def _find(requester: Caller, slug: str) -> BranchQuestion:
    """Return the question of that slug if the caller may read its trajectory. Raises Problem 404."""
    return requester.find(_readable(requester), slug, "question", "trajectory__run__team")
