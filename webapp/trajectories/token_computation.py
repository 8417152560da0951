"""Requests to compute the tokens of an attempt from a checkpoint, for workers (webapp/worker/computations)."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from trainer.journal import token_arrays
from trainer.journal.computed_tokens import ComputedTokens, nearest_checkpoint, weights_of
from webapp.core.database import database_now
from webapp.runs import worker_requests
from webapp.runs.actions import RequestRefused, record_run
from webapp.runs.models import Run
from webapp.teams.models import AuditAction, User
from webapp.trajectories.models import BRANCH, TokenArrays, TokenComputation, Trajectory

MAX_PENDING = 20
"""Computations of a team that wait or run at the same time."""

State = TokenComputation.State


def sampled_after(trajectory: Trajectory) -> int:
    """Return the finished iterations of the weights that the run had when it sampled the attempt."""
    return weights_of(trajectory.split, trajectory.iteration)


def weights_problem(run: Run) -> str:
    """Return why the site has no weights of a run, as a clause; empty if it may have them."""
    if run.recorded is not None:
        return "Echoscope has neither the weights nor the chat format of another trainer"
    if run.is_hosted:
        return "the weights of a hosted model are not on this site"
    if run.imported:
        return "this run was trained elsewhere, and its checkpoints are not on this site"
    return ""


def refusal(trajectory: Trajectory) -> str:
    """Return why the tokens of an attempt cannot be computed; empty if they can. At most one query."""
    run = trajectory.run
    if problem := weights_problem(run):
        return f"They cannot be computed: {problem}."
    if trajectory.split == BRANCH:
        return "They cannot be computed: branches have the tokens that were sampled."
    if trajectory.superseded:
        return "They cannot be computed: a later attempt of the run replaced this one, and its weights."
    if trajectory.finished_seq is None:
        return "They can be computed when the attempt has ended."
    if trajectory.split == "train" and trajectory.group.kept is None and run.state in Run.HELD:
        return "They can be computed when this iteration's update is done."
    if not trajectory.turn_count:
        return "There is nothing to compute: the attempt has no turn."
    if sampled_after(trajectory) and not run.checkpoints.exists():
        return "They cannot be computed: no checkpoint of this run is kept."
    return ""


def expected_weights(trajectory: Trajectory) -> int:
    """Return the finished iterations of the weights that would be used: the worker chooses among those that it has."""
    wanted = sampled_after(trajectory)
    kept = list(trajectory.run.checkpoints.values_list("iteration", flat=True))
    nearest = nearest_checkpoint(kept, wanted)
    return wanted if not wanted or nearest is None else nearest


def status_text(computation: TokenComputation) -> str:
    """Return the state of a computation in a sentence."""
    if computation.state == State.FAILED:
        return computation.error
    if computation.state == State.RUNNING:
        where = f"Worker {computation.worker.name}" if computation.worker else "A worker"
        return f"{where} loads the checkpoint and computes the tokens."
    return worker_requests.waiting_text(computation.trajectory.run)


@transaction.atomic
def do_request_tokens(trajectory: Trajectory, user: User) -> TokenComputation | None:
    """Request that a worker computes the tokens; return the request, or None if there are tokens already.

    A request that waits or runs is returned as it is.

    Raises:
        RequestRefused: they cannot be computed, or the team has too many requests.
    """
    Trajectory.objects.select_for_update(no_key=True).only("pk").get(pk=trajectory.pk)
    if TokenArrays.objects.filter(trajectory=trajectory).exists():
        return None
    if reason := refusal(trajectory):
        raise RequestRefused(reason)
    earlier = TokenComputation.objects.filter(trajectory=trajectory).first()
    if earlier is not None and earlier.pending:
        return earlier
    pending = TokenComputation.objects.filter(
        trajectory__run__team=trajectory.run.team_id, state__in=TokenComputation.PENDING
    )
    if pending.count() >= MAX_PENDING:
        raise RequestRefused(
            f"The tokens of {MAX_PENDING} attempts of your team are being computed already: wait for some of them."
        )
    values = {"state": State.QUEUED, "requested_by": user, "requested_at": database_now(), "attempts": 0, "error": ""}
    computation, _ = TokenComputation.objects.update_or_create(
        trajectory=trajectory, defaults=values | {"worker": None, "lease": "", "seen_at": None}
    )
    record_run(AuditAction.RUN_CHANGED, trajectory.run, computed_tokens=trajectory.key)
    return computation


@transaction.atomic
def do_cancel_tokens(trajectory: Trajectory) -> bool:
    """Withdraw the request, or forget that it failed; its worker ends the work. False if there is none."""
    deleted, _ = TokenComputation.objects.filter(trajectory=trajectory).delete()
    if deleted:
        record_run(AuditAction.RUN_CHANGED, trajectory.run, cancelled_tokens=trajectory.key)
    return bool(deleted)


# -- for the workers ---------------------------------------------------------------------------------------------------


def waiting_computations(now: datetime) -> QuerySet[TokenComputation]:
    """Return the requests without a live worker, the oldest first."""
    return worker_requests.waiting(TokenComputation.objects.select_related("trajectory__run"), now)


@transaction.atomic
def do_store_tokens(computation: TokenComputation, computed: ComputedTokens) -> None:
    """Store the result instead of the request, unless it was withdrawn or taken over.

    Raises:
        TokenArraysError: the tokens do not fit the attempt.
    """
    trajectory = computation.trajectory
    packed = token_arrays.compressed(token_arrays.pack(computed.as_arrays(trajectory.turn_count)))
    if worker_requests.held(computation).delete()[0]:
        TokenArrays.objects.get_or_create(
            trajectory=trajectory, defaults={"data": packed, "computed_from": computed.checkpoint}
        )
