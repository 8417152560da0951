"""The state of a question to a policy in a sentence, for programs that wait for its answer."""

from __future__ import annotations

from webapp.branching.models import BranchQuestion, EvaluationQuestion
from webapp.branching.policies import hosted_model
from webapp.runs import worker_requests
from webapp.runs.models import Run

State = BranchQuestion.State


def status_text(question: BranchQuestion, waiting: dict[int, str]) -> str:
    """Return the state of a question in a sentence; a failure's reason is for the team. Select both runs with it.

    Args:
        waiting: what questions wait for, by run of the weights; filled here, for lists.
    """
    return _status(question, question.run_with_weights, waiting)


def evaluation_status_text(question: EvaluationQuestion, waiting: dict[int, str]) -> str:
    """Return the state of a question about an evaluation, likewise. Select the run with it."""
    return _status(question, question.run, waiting)


def _status(question: BranchQuestion | EvaluationQuestion, run: Run, waiting: dict[int, str]) -> str:
    if question.state == State.FAILED:
        return question.error
    if question.state == State.QUEUED:
        if run.pk not in waiting:
            waiting[run.pk] = worker_requests.waiting_text(run)
        return waiting[run.pk]
    if question.state == State.RUNNING:
        return f"A worker plays on: {question.done:,} of {question.total:,} done."
    return _answered(question, run)


def _answered(question: BranchQuestion | EvaluationQuestion, run: Run) -> str:
    """Return which weights answered, and where the token ids of the dialogue come from."""
    weights = question.used_checkpoint
    hosted = hosted_model(run)
    if weights is None:
        first = "Answered."
    elif hosted is not None:
        first = f"Answered by the hosted model {hosted.model}."
    elif weights:
        first = f"Answered by the weights after {weights:,} iteration{'' if weights == 1 else 's'}."
    else:
        first = "Answered by the initial policy."
    if question.encoded is None:
        return first
    ids = "the token ids of its recorded text" if question.encoded else "the recorded token ids"
    return f"{first} The dialogue has {ids}."
