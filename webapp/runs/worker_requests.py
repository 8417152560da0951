"""Queue of requests that workers carry out alongside their runs: claims, leases, ends.

A worker reports while it works. If it falls silent, another one may take its request over.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import F, Q, QuerySet

from webapp.core import ids
from webapp.core.database import database_now
from webapp.runs.models import Run, Worker, WorkerRequest
from webapp.runs.queue.dead_workers import live_workers
from webapp.runs.queue.order import continues_here

SILENCE = timedelta(seconds=20)
"""If its worker has not reported for longer, a request may be taken over."""
MAX_ATTEMPTS = 3
LOST = (
    f"The worker was lost {MAX_ATTEMPTS} times during this computation; perhaps its memory was exhausted. Try again "
    "when fewer runs train there."
)

R = TypeVar("R", bound=WorkerRequest)
State = WorkerRequest.State


def waiting(rows: QuerySet[R], now: datetime) -> QuerySet[R]:
    """Return the requests without a live worker, the oldest first."""
    alive = Q(state=State.RUNNING, seen_at__gte=now - SILENCE)
    return rows.filter(state__in=WorkerRequest.PENDING).exclude(alive).order_by("requested_at", "pk")


def waiting_text(run: Run) -> str:
    """Return what a request that needs the files of a run waits for, in a sentence."""
    live = live_workers(database_now()).filter(stopping=False)
    folders = list(live.values_list("data_folder", flat=True))
    if not folders:
        return "No worker is running: this starts as soon as one is."
    if not any(continues_here(run, folder) for folder in folders):
        return "No running worker has the files of this run: this starts as soon as one that has them runs."
    return "Waiting for a worker."


@transaction.atomic
def do_claim(row: WorkerRequest, worker: Worker) -> bool:
    """Claim a request for a worker. False if another one was faster, or if it has cost too many workers."""
    now, rows = database_now(), type(row)._default_manager.all()
    found = waiting(rows, now).select_for_update(of=("self",), skip_locked=True).filter(pk=row.pk).first()
    if found is None:
        return False
    if found.attempts >= MAX_ATTEMPTS:
        rows.filter(pk=row.pk).update(state=State.FAILED, lease="", error=LOST)
        return False
    row.lease = ids.token()
    rows.filter(pk=row.pk).update(
        state=State.RUNNING, worker=worker, lease=row.lease, seen_at=now, attempts=F("attempts") + 1, error=""
    )
    return True


def do_report(row: WorkerRequest, **changes: Any) -> bool:
    """Report that the worker is alive, and set columns. False if the request was withdrawn or taken over."""
    return bool(held(row).update(seen_at=database_now(), **changes))


def do_give_back(row: WorkerRequest) -> None:
    """Queue the request of a stopping worker again."""
    held(row).update(state=State.QUEUED, lease="", worker=None, attempts=F("attempts") - 1)


def do_fail(row: WorkerRequest, error: str) -> None:
    """Record why the request failed, in a sentence for people."""
    held(row).update(state=State.FAILED, lease="", error=error)


def held(row: R) -> QuerySet[R]:
    """Return the row of the request if the worker still holds its lease."""
    return type(row)._default_manager.filter(pk=row.pk, lease=row.lease, state=State.RUNNING)
