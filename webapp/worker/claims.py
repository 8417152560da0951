"""Claims: PostgreSQL decides which queued run a worker takes, and on which of its GPUs.

The Celery message only wakes the worker; it does not choose the run.
"""

from __future__ import annotations

import logging
import os
from datetime import datetime, timedelta

from django.db import connection, transaction

from trainer.journal.protocol import JOURNAL_FILE
from webapp.core import ids
from webapp.runs import actions
from webapp.runs.models import Run, Worker
from webapp.runs.queue import fair_share, model_availability, order, placement, run_quotas
from webapp.runs.queue.dead_workers import is_alive
from webapp.runs.untrusted_folder import UntrustedFolder

logger = logging.getLogger(__name__)

CLAIM_LOCK = 0x0EC4_05C0
"""Key of the advisory lock that serialises claims, so that each sees the result of the one before."""
RESERVATION_TIMEOUT = timedelta(minutes=10)
"""Wait after which a run that needs several GPUs reserves a worker, which then claims no other run."""


@transaction.atomic
def do_claim_next(worker: Worker, now: datetime) -> Run | None:
    """Claim the first waiting run that fits the worker now; None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIM_LOCK])
    if Worker.objects.filter(pk=worker.pk, stopping=True).exists():
        return None
    capacity = order.get_worker_capacity(worker, Run.objects.filter(worker=worker, state__in=Run.HELD))
    full = run_quotas.teams_at_limit()
    cluster_reserved = False
    waiting = [run for run in order.waiting() if run.queue in capacity.queues and run.team_id not in full]
    for run in order.claim_order(waiting, fair_share.used(now) if waiting else fair_share.DeviceShares(), now):
        if not order.continues_here(run, worker.data_folder) and not UntrustedFolder(run.folder).has(JOURNAL_FILE):
            continue
        if model_availability.missing_model(run, [worker]):
            continue
        needs = run.needs
        if cluster_reserved and needs.actors:
            continue
        reserved = placement.reserve(needs, capacity)
        if reserved is not None:
            _, gpus = capacity.cluster.demand(needs.actors) if capacity.cluster else (0.0, 0.0)
            claimed = do_claim_run(run.pk, worker, now, reserved, cluster_gpus=gpus)
            if claimed is not None:
                return claimed
        elif _is_reserved_for(run, worker, capacity, now):
            if not needs.actors:
                return None
            cluster_reserved = True  # others may occupy the cluster for long; smaller runs use the machine
    return None


@transaction.atomic
def do_claim_run(
    run_id: int, worker: Worker | None, now: datetime, reserved: tuple[str, ...] = (), *, cluster_gpus: float = 0.0
) -> Run | None:
    """Take the lease of that run for this process if it is free. Of two concurrent callers, the second gets None.

    Args:
        reserved: GPUs of the worker's machine that the run gets.
        cluster_gpus: GPUs of the worker's cluster that the run's actors take, for the fair shares.
    """
    claimed = (
        Run.objects.claimable(now)
        .filter(pk=run_id)
        .update(
            state=Run.State.STARTING,
            worker=worker,
            lease=ids.token(),
            lease_expires_at=now + actions.LEASE,
            supervisor=os.getpid(),
            reserved=list(reserved),
            progressed_at=now,
            promised=None,
            **({"data_folder": worker.data_folder} if worker else {}),
        )
    )
    if not claimed:
        return None
    run = Run.objects.select_related("worker").get(pk=run_id)
    if worker and worker.name not in run.claimed_by:
        run.claimed_by.append(worker.name)
        run.save(update_fields=["claimed_by"])
    fair_share.begin(run, len(reserved) + cluster_gpus, now)
    actions.notify_on_commit(run_id)
    actions.wake_next_on_commit()
    return run


def _is_reserved_for(run: Run, worker: Worker, capacity: placement.WorkerCapacity, now: datetime) -> bool:
    """Return True if the worker waits until enough of its GPUs are free for this run, instead of claiming smaller runs.

    Without the reservation, small runs would starve a run that needs many GPUs at once. For a run with Ray actors, the
    worker's cluster waits.
    """
    if run.promised is not None and is_alive(run.promised, now) and not run.promised.stopping:
        return run.promised_id == worker.pk
    if now - order.waited_since(run) < RESERVATION_TIMEOUT or not placement.lacks_gpus_only(run.needs, capacity):
        return False
    if Run.objects.filter(promised=worker, state=Run.State.QUEUED).exclude(pk=run.pk).exists():
        return False
    logger.info("Worker %s claims no other run until run %s fits.", worker.name, run.slug)
    return bool(Run.objects.filter(pk=run.pk, state=Run.State.QUEUED).update(promised=worker))
