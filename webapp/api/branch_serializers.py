"""Serializers of questions to policies about recorded trajectories, and of their branches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import F, Sum, TextField, Window
from django.db.models.functions import Cast, Length
from django.http import HttpRequest
from django.urls import reverse

from webapp.api.question_status import status_text
from webapp.api.schemas.branch_schemas import BranchOut, BranchTurn, QuestionDetail, QuestionOut
from webapp.api.serializers import is_inside
from webapp.branching.models import BranchQuestion
from webapp.runs.public_texts import failure_text
from webapp.trajectories.models import BRANCH, Trajectory, Turn
from webapp.trajectories.positions import START, position_query
from webapp.trajectories.serialize import MAX_TURNS_LENGTH


def questions_out(request: HttpRequest, questions: Iterable[BranchQuestion]) -> list[QuestionOut]:
    """Return questions for a list; select both runs and who asked with them."""
    waiting: dict[int, str] = {}
    return [QuestionOut.model_validate(_question(request, question, waiting)) for question in questions]


def question_detail(request: HttpRequest, question: BranchQuestion) -> QuestionDetail:
    """Return a question with its branches; select both runs and who asked with it."""
    facts = _question(request, question, {}) | {"branches": _branches(request, question)}
    return QuestionDetail.model_validate(facts)


def question_of(branch: Trajectory) -> str | None:
    """Return the slug of the question that a branch answers; None for recorded attempts."""
    if branch.split != BRANCH:
        return None
    return BranchQuestion.objects.filter(group=branch.group_id).values_list("slug", flat=True).first()


def _question(request: HttpRequest, question: BranchQuestion, waiting: dict[int, str]) -> dict[str, Any]:
    trajectory = question.trajectory
    inside = is_inside(request, trajectory.run)
    page = reverse("trajectory", args=[trajectory.slug])
    position = "" if question.turn is None else position_query(question.turn, START)
    message = status_text(question, waiting)
    return {
        "slug": question.slug,
        "url": request.build_absolute_uri(f"{page}{position}"),
        "trajectory": trajectory.slug,
        "kind": question.kind,
        "turn": question.turn,
        "samples": question.samples,
        "temperature": question.temperature,
        "change": question.change,
        "fresh_luck": question.luck == "fresh",
        "weights_run": question.weights_run.slug if question.weights_run and inside else None,
        "checkpoint": question.checkpoint,
        "author": question.requested_by.username if question.requested_by and inside else None,
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


def _branches(request: HttpRequest, question: BranchQuestion) -> list[BranchOut]:
    if question.group_id is None:
        return []
    inside = is_inside(request, question.trajectory.run)
    branches = list(Trajectory.with_branches.filter(group=question.group_id).order_by("member"))
    played = _new_turns(branches, question.turn or 0)
    return [
        BranchOut.model_validate(
            {
                "number": branch.member,
                "slug": branch.slug,
                "url": request.build_absolute_uri(reverse("trajectory", args=[branch.slug])),
                "status": branch.status,
                "end": branch.end,
                "end_reason": branch.end_reason,
                "total_reward": branch.reward,
                "turns": branch.turn_count,
                "new_turns": played[branch.pk],
                "error": failure_text(branch.error, inside=inside),
            }
        )
        for branch in branches
    ]


def _new_turns(branches: Iterable[Trajectory], first: int) -> dict[int, list[BranchTurn]]:
    """Return the turns from the position on by branch, up to MAX_TURNS_LENGTH characters of JSON in total."""
    length = Length(Cast("event", TextField()))
    together = Window(Sum(length), order_by=[F("number").asc(), F("trajectory").asc()])
    turns = Turn.objects.filter(trajectory__in=branches, number__gte=first).annotate(together=together)
    rows = turns.filter(together__lte=MAX_TURNS_LENGTH).order_by("number").values_list("trajectory", "event")
    found: dict[int, list[BranchTurn]] = defaultdict(list)
    for branch, event in rows:
        found[branch].append(_turn(event))
    return found


def _turn(event: dict[str, Any]) -> BranchTurn:
    return BranchTurn(
        turn=event["turn"],
        thought=event["thought"],
        answer=event["answer"],
        actions=[action.get("name") or action["text"] for action in event["actions"]],
        problem=event.get("problem"),
    )
