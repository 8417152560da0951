"""Serializers of questions to policies about evaluations."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest
from django.urls import reverse

from webapp.api.question_status import evaluation_status_text
from webapp.api.schemas.evaluation_question_schemas import EvaluationQuestionOut
from webapp.api.serializers import is_inside
from webapp.branching.models import EvaluationQuestion
from webapp.runs.public_texts import failure_text


def evaluation_questions_out(
    request: HttpRequest, questions: Iterable[EvaluationQuestion]
) -> list[EvaluationQuestionOut]:
    """Return questions for the API; select their run and who asked with them."""
    waiting: dict[int, str] = {}
    return [_question(request, question, waiting) for question in questions]


def _question(request: HttpRequest, question: EvaluationQuestion, waiting: dict[int, str]) -> EvaluationQuestionOut:
    run, author = question.run, question.requested_by
    inside = is_inside(request, run)
    message = evaluation_status_text(question, waiting)
    facts = {
        "slug": question.slug,
        "url": request.build_absolute_uri(reverse("run-evaluation", args=[run.slug])),
        "run": run.slug,
        "kind": question.kind,
        "suite": question.suite,
        "iteration": question.iteration,
        "samples": question.samples,
        "attempts": question.most_attempts,
        "author": author.username if author and inside else None,
        "state": question.state,
        "message": failure_text(message, inside=inside) if question.error else message,
        "done": question.done,
        "total": question.total,
        "used_checkpoint": question.used_checkpoint,
        "encoded": question.encoded,
        "result": question.result and question.result | {"id": question.slug},
        "requested_at": question.requested_at,
        "answered_at": question.answered_at,
    }
    return EvaluationQuestionOut.model_validate(facts)
