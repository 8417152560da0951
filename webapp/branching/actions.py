"""Asking questions about attempts, cancelling and deleting them."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from webapp.branching.asked import Asked, AskedWrongly, continuations, problem_with, refusal
from webapp.branching.defaults import with_defaults
from webapp.branching.lineage import owner_of
from webapp.branching.models import BranchQuestion
from webapp.branching.policies import hosted_model, policy_problem, text_problem
from webapp.branching.wake import wake_samplers
from webapp.core.database import database_now
from webapp.runs import worker_requests
from webapp.runs.actions import RequestRefused, record_run
from webapp.runs.models import Run
from webapp.teams.models import AuditAction, User
from webapp.trajectories.models import Trajectory
from webapp.trajectories.token_computation import sampled_after

MAX_PENDING = 20
"""Questions of a team that wait or are being answered at the same time."""
MAX_KEPT = 100
"""Questions about one attempt that are kept with their answers."""

State = BranchQuestion.State


@transaction.atomic
def do_ask(trajectory: Trajectory, asked: Asked, user: User, weights_run: Run | None = None) -> BranchQuestion:
    """Ask a question about an attempt. The same question, if it did not fail, is returned with its answer.

    It is asked about the attempt to which its position belongs, which may be one that a branch continues.

    Args:
        weights_run: run of the weights, which the user may read; None, without a checkpoint: what played the attempt.
    Raises:
        RequestRefused: nothing can be asked about the attempt, or too much was.
        AskedWrongly: a value is impossible.
    """
    given, owner = weights_run, owner_of(trajectory, asked.turn)
    asked, weights_run = with_defaults(asked, given, trajectory, owner)
    if weights_run is not None and weights_run != given:
        require_usable(weights_run, user)
    return _ask(owner, asked, user, weights_run)


def require_usable(run: Run, user: User) -> None:
    """Raise RequestRefused if the user may not ask the weights of another run. One query."""
    if not Run.objects.listed_for(user).filter(pk=run.pk).exists():
        raise RequestRefused("The weights belong to a run of none of your teams: choose others.")


def _ask(trajectory: Trajectory, asked: Asked, user: User, weights_run: Run | None) -> BranchQuestion:
    Trajectory.with_branches.select_for_update(no_key=True).only("pk").get(pk=trajectory.pk)
    if reason := refusal(trajectory):
        raise RequestRefused(reason)
    if problem := problem_with(asked, trajectory) or _unchanged(asked, trajectory):
        raise problem
    other = weights_run if weights_run is not None and weights_run.pk != trajectory.run_id else None
    _require_weights(trajectory.run if other is None else other, asked, trajectory)
    values = {
        "kind": asked.kind,
        "turn": asked.turn,
        "samples": asked.samples,
        "temperature": asked.temperature,
        "change": asked.change.model_dump(exclude_none=True),
        "luck": "fresh" if asked.fresh_luck else "recorded",
        "weights_run": other,
        "checkpoint": asked.checkpoint,
    }
    earlier = BranchQuestion.objects.filter(trajectory=trajectory, **values).exclude(state=State.FAILED).first()
    if earlier is not None:
        return earlier
    _require_room(trajectory)
    question = BranchQuestion.objects.create(
        trajectory=trajectory,
        requested_by=user,
        requested_at=database_now(),
        total=continuations(asked, trajectory),
        **values,
    )
    record_run(AuditAction.RUN_CHANGED, trajectory.run, asked=asked.kind.value, about=trajectory.key)
    transaction.on_commit(wake_samplers)
    return question


def _unchanged(asked: Asked, trajectory: Trajectory) -> AskedWrongly | None:
    """Return what is wrong with a change that changes nothing. At most one query."""
    for name, text in asked.change.model_dump(exclude_none=True).items():
        event = trajectory.turns.filter(number=asked.turn or 0).values_list("event", flat=True).first() or {}
        if str(event.get(name, "")).strip() == text.strip():
            return AskedWrongly("change", f"This is the recorded {name}: change it, or change nothing.")
    return None


def _require_weights(run: Run, asked: Asked, trajectory: Trajectory) -> None:
    """Raise RequestRefused if the run has no such weights. At most one query."""
    if problem := policy_problem(run):
        raise RequestRefused(f"The policy of that run cannot play: {problem}.")
    if problem := text_problem(run, asked.kind, thought=asked.change.thought is not None):
        raise RequestRefused(problem)
    if hosted_model(run) is not None:
        if asked.checkpoint:
            raise RequestRefused("A hosted model has no checkpoints: choose none.")
        return
    is_own = run.pk == trajectory.run_id
    wants_initial = asked.checkpoint == 0 or (asked.checkpoint is None and is_own and not sampled_after(trajectory))
    if not wants_initial and not run.checkpoints.exists():
        raise RequestRefused(f"No checkpoint of {'this' if is_own else 'that'} run is kept: ask the initial policy.")


def _require_room(trajectory: Trajectory) -> None:
    pending = BranchQuestion.objects.filter(
        trajectory__run__team=trajectory.run.team_id, state__in=BranchQuestion.PENDING
    )
    if pending.count() >= MAX_PENDING:
        raise RequestRefused(f"{MAX_PENDING} questions of your team are being answered already: wait for some of them.")
    if BranchQuestion.objects.filter(trajectory=trajectory).count() >= MAX_KEPT:
        raise RequestRefused(f"{MAX_KEPT} questions about this attempt are kept: delete some of them first.")


@transaction.atomic
def do_delete_question(question: BranchQuestion) -> None:
    """Cancel a question that waits or is being answered; delete its answer and its branches otherwise.

    Questions about its branches go with them.
    """
    run, below = question.trajectory.run, _count_below(question)
    BranchQuestion.objects.filter(pk=question.pk).delete()
    details = {"questions_about_its_branches": below} if below else {}
    record_run(AuditAction.RUN_CHANGED, run, withdrawn=question.kind, about=question.trajectory.key, **details)


def _count_below(question: BranchQuestion) -> int:
    """Return the number of questions about the branches of a question, about their branches, and so on."""
    count, groups = 0, [question.group_id]
    while groups := [group for group in groups if group is not None]:
        groups = list(BranchQuestion.objects.filter(trajectory__group__in=groups).values_list("group_id", flat=True))
        count += len(groups)
    return count


def waiting_questions(now: datetime) -> QuerySet[BranchQuestion]:
    """Return the questions without a live worker, the oldest first."""
    rows = BranchQuestion.objects.select_related("trajectory__run", "trajectory__group", "weights_run")
    return worker_requests.waiting(rows, now)
