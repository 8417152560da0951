"""Answers to questions about evaluations, as a worker stores them."""

from __future__ import annotations

from django.utils import timezone

from trainer.journal.branches import (
    AttemptInfluence,
    CorrectedAttempt,
    Corrections,
    Interval,
    Share,
    Survey,
)
from webapp.branching.evaluation_actions import do_store_answer
from webapp.branching.models import EvaluationQuestion
from webapp.runs import worker_requests
from webapp.runs.models import Worker


def corrections(*keys: str, iteration: int = 2) -> Corrections:
    """Every lost attempt was won in 3 of 4 continuations, and in 1 of 4 without the correction."""
    rows = [
        CorrectedAttempt(
            trajectory=key,
            turn=0,
            claims=["Box 2,3"],
            corrections=["Box 3,5"],
            thought="Box 3,5.",
            solved=3,
            samples=4,
            solved_without=1,
            samples_without=4,
        )
        for key in keys
    ]
    count = 4 * len(rows)
    return Corrections(
        iteration=iteration,
        suite="Sokoban",
        attempts=9,
        lost=4,
        correctable=len(rows),
        rows=rows,
        solved=Share(solved=3 * len(rows), samples=count, share=0.75 if rows else 0, low=0.4, high=0.9),
        solved_without=Share(solved=len(rows), samples=count, share=0.25 if rows else 0, low=0.1, high=0.6),
        difference=Interval(value=0.5, low=0.125, high=0.75) if rows else None,
    )


def survey(*keys: str, iteration: int = 2) -> Survey:
    rows = [AttemptInfluence(trajectory=key, turns=2, influence=0.5, follows_false_claims=None) for key in keys]
    influence = Interval(value=0.5, low=0.25, high=0.75)
    return Survey(
        iteration=iteration, suite="Sokoban", attempts=9, rows=rows, influence=influence, follows_false_claims=None
    )


def claim(question: EvaluationQuestion) -> None:
    """A worker takes the question."""
    now = timezone.now()
    worker, _ = Worker.objects.get_or_create(name="worker@here", defaults={"started_at": now, "last_seen_at": now})
    assert worker_requests.do_claim(question, worker)


def answer(question: EvaluationQuestion, result: Corrections | Survey) -> None:
    """A worker answers the question with the weights after 2 iterations."""
    claim(question)
    stored = result.model_dump(mode="json", exclude={"id"})
    assert do_store_answer(question, stored, used_checkpoint=2, encoded=False, done=8, total=8)
