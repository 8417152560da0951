"""Changes of a run's state, each a conditional update: the second concurrent writer is a no-op."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Now
from django.dispatch import Signal
from django.urls import reverse
from django.utils import timezone

from webapp.core.database import RowLocked, database_now, delete_in_chunks, lift_statement_timeout, lock_wait
from webapp.core.publisher import publisher
from webapp.core.soft_delete import UNDO_TIME
from webapp.runs import object_storage
from webapp.runs.inputs import allowed_inputs
from webapp.runs.models import EventBatch, Run, RunQuerySet, StoredModel, Worker
from webapp.runs.queue import fair_share, order, run_quotas
from webapp.runs.run_files import RunFiles
from webapp.teams.audit import record
from webapp.teams.daily_use import do_forget_uses
from webapp.teams.models import AuditAction

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=20)
TRAIN_TASK = "webapp.worker.train"
"""Name of the Celery task that starts a queued run; sent by name, so that the site does not import the worker."""
REQUEST_LOCK_WAIT = 2.0
"""Seconds that a request of a user waits for the run's row."""
WAKE_INTERVAL = timedelta(seconds=15)
MAX_CRASHES = 3
WORKER_RETENTION = timedelta(days=1)
FRAME_RETENTION = timedelta(days=1)
run_ended = Signal()
"""Sent with a `run` whose training has ended, in the transaction that stores the end."""


class RequestRefused(ValueError):
    """The run's state does not allow the request. The message is for users."""


@transaction.atomic
def do_update_run(
    run: Run,
    *,
    title: str | None = None,
    tags: Sequence[str] | None = None,
    notes: str | None = None,
    visibility: Run.Visibility | None = None,
    priority: Run.Priority | None = None,
    group: str | None = None,
) -> Run:
    """Change title, tags, notes, visibility, priority and group of a run. None leaves a value unchanged.

    Raises QuotaExceeded for too many tags.
    """
    if tags is not None:
        run_quotas.require_allowed_tags(tags)
    values = {
        "title": title,
        "tags": None if tags is None else list(tags),
        "notes": notes,
        "visibility": visibility,
        "priority": priority,
        "group": group,
    }
    changes = {name: value for name, value in values.items() if value is not None}
    if changes:
        Run.objects.filter(pk=run.pk).update(**changes)
        for name, value in changes.items():
            setattr(run, name, value)
        shown = {name: value for name, value in changes.items() if name in ("visibility", "priority", "group")}
        record_run(AuditAction.RUN_CHANGED, run, changed=sorted(changes), **shown)
        notify_on_commit(run.pk)
        if priority is not None:
            wake_next_on_commit()
    return run


def record_run(action: AuditAction, run: Run, **details: Any) -> None:
    """Add an entry about a run to the audit log."""
    record(action, f"run “{run.title}”", team=run.team, path=reverse("run", args=[run.slug]), **details)


@transaction.atomic
def do_archive_run(run: Run, archived: bool) -> Run:
    """Hide a run from lists, or show it again. Raises RequestRefused for a run that may still train."""
    if not archived:
        Run.objects.filter(pk=run.pk).update(archived_at=None)
    elif not Run.objects.filter(pk=run.pk, state__in=Run.ENDED).update(archived_at=timezone.now()):
        raise RequestRefused(
            f"This run is {run.get_state_display().lower()}: only runs that have ended can be archived. Stop it first."
        )
    run.refresh_from_db()
    record_run(AuditAction.RUN_CHANGED, run, archived=archived)
    return run


@transaction.atomic
def do_delete_run(run: Run) -> None:
    """Delete a run that has ended, with its rows, its folder and its copy. Raises RequestRefused."""
    lift_statement_timeout()
    locked = Run.objects.select_for_update().get(pk=run.pk)
    if locked.state not in Run.ENDED:
        raise RequestRefused(
            f"This run is {locked.get_state_display().lower()}: only runs that have ended can be deleted. Cancel it "
            "first."
        )
    folder, slug = locked.folder, locked.slug
    record_run(AuditAction.RUN_DELETED, locked, author=locked.author and locked.author.username)
    delete_in_chunks(locked.trajectories(manager="with_branches").all())
    locked.delete()

    def delete_files() -> None:
        RunFiles(folder).delete()
        storage = object_storage.configured_storage()
        if storage is not None:
            try:
                object_storage.delete(storage, slug)
            except object_storage.failures() as error:  # the run is gone in any case
                logger.warning("The copy of run %s in storage could not be deleted: %s", slug, error)

    transaction.on_commit(delete_files)


def do_request(run: Run, request: str) -> Run:
    """Request "pause", "stop", "cancel", "undo-cancel" or "resume". Returns the updated run.

    Raises RequestRefused, and QuotaExceeded if a run to resume has no room in its team's queue.
    """
    if run.imported:
        raise RequestRefused(
            f"This run was trained elsewhere, so it cannot {request} from here. Do that where it is trained, or "
            "clone it to train it here."
        )
    if request == "resume" and (refusal := allowed_inputs.refusal(run)):
        raise RequestRefused(f"This run is not allowed on this site: {refusal}.")
    try:
        with lock_wait(REQUEST_LOCK_WAIT):
            match request:
                case "pause" | "stop" | "cancel":
                    changed = _interrupt(run.pk, Run.Request(request))
                case "resume":
                    changed = _resume(run.pk)
                case "undo-cancel":
                    changed = _undo_cancel(run.pk, timezone.now())
                case _:
                    raise RequestRefused(f"A run accepts pause, stop, cancel, undo-cancel and resume, not {request!r}.")
            if changed:
                record_run(AuditAction.CONTROLLED, run, request=request)
    except RowLocked:
        raise RequestRefused(
            "The worker of this run does not answer at the moment, so nothing was changed. It is replaced within a "
            "minute: try again then."
        ) from None
    run.refresh_from_db()
    if not changed and request == "undo-cancel":
        minutes = UNDO_TIME // timedelta(minutes=1)
        raise RequestRefused(
            f"There is no cancellation to undo: that is possible for {minutes} minutes. Clone the run to train again."
        )
    if not changed:
        raise RequestRefused(f"This run is {run.get_state_display().lower()}: it cannot {request} now.")
    return run


@transaction.atomic
def do_request_rebuild(run: Run) -> None:
    """Request that the run's tables are rebuilt from its journal; the clock does it. Raises RequestRefused."""
    if run.imported:
        raise RequestRefused("This run was sent here, so its journal is not here: send it again as a new run.")
    active = (Run.State.STARTING, Run.State.RUNNING)
    if not Run.objects.filter(pk=run.pk).exclude(state__in=active).update(rebuild_requested=True):
        raise RequestRefused("This run is being trained: pause it first, then rebuild it and resume it.")
    record_run(AuditAction.CONTROLLED, run, request="rebuild")


IDLE_STATES = {
    Run.Request.PAUSE: (Run.State.PAUSED, (Run.State.QUEUED,)),
    Run.Request.STOP: (Run.State.STOPPED, (Run.State.QUEUED, Run.State.PAUSED)),
    Run.Request.CANCEL: (Run.State.CANCELLED, (Run.State.QUEUED, Run.State.PAUSED, Run.State.STOPPED)),
}
"""The state after a request while no process runs, and the states to which the request applies."""


@transaction.atomic
def _interrupt(run_id: int, request: Run.Request) -> bool:
    state, idle = IDLE_STATES[request]
    ended = None if state == Run.State.PAUSED else timezone.now()
    previous_state = F("state") if request == Run.Request.CANCEL else Value("")
    changed = Run.objects.filter(pk=run_id, state__in=idle).update(
        state=state, requested="", ended_at=ended, cancelled_from=previous_state
    )
    if not changed:  # a supervisor runs it: it reads the request within a second
        changed = Run.objects.filter(pk=run_id, state__in=Run.HELD).update(requested=request, cancelled_from="")
    if changed:
        notify_on_commit(run_id)
    return bool(changed)


@transaction.atomic
def _undo_cancel(run_id: int, now: datetime) -> bool:
    """Withdraw a cancellation, or return a cancelled run to its former state; one that trained is queued again.

    If the trainer was killed before the request was withdrawn, its supervisor restarts it as after a crash.
    """
    changed = Run.objects.filter(pk=run_id, state__in=Run.HELD, requested=Run.Request.CANCEL).update(requested="")
    if not changed:
        undoable = Run.objects.filter(pk=run_id, state=Run.State.CANCELLED, ended_at__gt=now - UNDO_TIME)
        run = undoable.select_for_update().first()
        if run is None:
            return False
        run.state = Run.State(run.cancelled_from or Run.State.QUEUED)
        run.ended_at = run.ended_at if run.state == Run.State.STOPPED else None
        run.archived_at = run.archived_at if run.state in Run.ENDED else None
        run.cancelled_from, run.promised, run.crashes, run.progressed_at = "", None, 0, now
        changes = ["state", "ended_at", "archived_at", "cancelled_from", "promised", "crashes", "progressed_at"]
        run.save(update_fields=changes)
        if run.state == Run.State.QUEUED:
            run_quotas.require_place_in_queue(run.team_id, run_id)
            wake_on_commit(run_id)
    notify_on_commit(run_id)
    return True


@transaction.atomic
def _resume(run_id: int) -> bool:
    run_quotas.require_place_in_queue(Run.objects.values_list("team_id", flat=True).get(pk=run_id))
    changed = Run.objects.filter(pk=run_id, state__in=Run.RESUMABLE).update(
        state=Run.State.QUEUED,
        requested="",
        failure="",
        log_tail="",
        crashes=0,
        ended_at=None,
        archived_at=None,
        queued_at=timezone.now(),
        progressed_at=timezone.now(),
        promised=None,
    )
    if changed:
        notify_on_commit(run_id)
        wake_on_commit(run_id)
    return bool(changed)


def do_renew_lease(run: Run, now: datetime) -> Run | None:
    """Extend the lease. Returns the current run with its worker; None if the lease was lost."""
    if not Run.objects.held_by(run.lease).filter(pk=run.pk).update(lease_expires_at=now + LEASE):
        return None
    return Run.objects.select_related("worker").get(pk=run.pk)


@transaction.atomic
def do_release_run(run: Run, state: Run.State, *, failure: str = "", log_tail: str = "") -> bool:
    """Release the lease and set the run's state. Returns False if the lease was lost."""
    released = _release(
        Run.objects.held_by(run.lease),
        run,
        state,
        database_now(),
        failure=failure,
        log_tail=log_tail.replace("\0", "␀"),
        tokens_per_second=None,
        eta_seconds=None,
        eta_low_seconds=None,
        eta_high_seconds=None,
    )
    if released:
        wake_next_on_commit()
    return released


def _release(held: RunQuerySet, run: Run, state: Run.State, now: datetime, **changes: object) -> bool:
    """End the lease of the run if it is still among `held`; return False otherwise."""
    changed = held.filter(pk=run.pk).update(
        state=state,
        requested="",
        lease="",
        lease_expires_at=None,
        worker=None,
        reserved=[],
        ended_at=now if state in Run.ENDED else None,
        progressed_at=now,
        **changes,
    )
    if changed:
        fair_share.end([run.pk], now)
        notify_on_commit(run.pk)
        if state in Run.ENDED:
            run_ended.send(Run, run=Run.objects.get(pk=run.pk))
    return bool(changed)


@transaction.atomic
def do_count_crash(run: Run) -> int:
    """Count a crash of the trainer. Returns the number of crashes in a row without a finished iteration."""
    fresh = Run.objects.select_for_update().get(pk=run.pk)
    fresh.crashes = fresh.crashes + 1 if fresh.crashes and fresh.iteration <= fresh.crash_iteration else 1
    fresh.crash_iteration = fresh.iteration
    fresh.save(update_fields=["crashes", "crash_iteration"])
    return fresh.crashes


def do_reap(now: datetime) -> int:
    """Requeue runs with an expired lease, and wake workers for the first run of each queue.

    Returns the number of both.
    """
    count = 0
    for run_id in Run.objects.lost(now).values_list("pk", flat=True):
        count += do_take_back(Run.objects.lost(now).filter(pk=run_id), now)
    return count + _wake_next(now, now - WAKE_INTERVAL)


@transaction.atomic
def do_take_back(held: RunQuerySet, now: datetime) -> bool:
    """End the lease of the only run of `held` if its supervisor is lost, and apply its request. False without a run.

    A row that its supervisor locks is left for the next round: the database ends idle transactions.
    """
    run = held.select_for_update(skip_locked=True).first()
    if run is None:
        return False
    request = Run.Request(run.requested)
    state = IDLE_STATES[request][0] if request in IDLE_STATES else Run.State.QUEUED
    if not _release(held.filter(lease=run.lease), run, state, now):
        return False
    logger.warning("Run %s lost its worker and is %s now.", run.slug, state.label.lower())
    return True


def do_record_heartbeat(name: str, now: datetime, **description: object) -> Worker:
    """Record that a worker is alive, with its description."""
    worker, _ = Worker.objects.update_or_create(
        name=name,
        defaults={"last_seen_at": now, **description},
        create_defaults={"last_seen_at": now, "started_at": now, **description},
    )
    return worker


def do_prune(now: datetime) -> int:
    """Delete old workers, and frames of runs that ended long ago, whose pages read the tables. Returns the frames."""
    Worker.objects.filter(last_seen_at__lt=now - WORKER_RETENTION).delete()
    StoredModel.objects.exclude(store__in=Worker.objects.values("model_store")).delete()
    fair_share.forget(now)
    do_forget_uses(now)
    frames, _ = EventBatch.objects.filter(
        run__ended_at__lt=now - FRAME_RETENTION, run__state__in=Run.ENDED, last_seq__lte=F("run__seq")
    ).delete()
    return frames


def notify_on_commit(run_id: int) -> None:
    """Wake the run's readers once the transaction is committed."""

    def notify() -> None:
        slug, seq = Run.objects.values_list("slug", "seq").get(pk=run_id)
        publisher().notify(slug, seq)

    transaction.on_commit(notify)


def wake_on_commit(run_id: int) -> None:
    """Wake the workers of the run's class once the transaction is committed."""
    transaction.on_commit(lambda: wake(run_id))


def wake_next_on_commit() -> None:
    """Wake the workers for the first run of each queue: a change may let it start.

    A worker that claims a run wakes the next one, so one message per queue is enough for any number of free slots.
    """
    transaction.on_commit(lambda: _wake_next(timezone.now()))


def _wake_next(now: datetime, before: datetime | None = None) -> int:
    """Wake the workers for the first run of each queue, unless they were woken for it after `before`.

    `before` is a time of the database's clock, like `Run.woken_at`.
    """
    seen: set[str] = set()
    woken = 0
    runs = order.waiting()
    for run in order.claim_order(runs, fair_share.used(now) if runs else fair_share.DeviceShares(), now):
        if run.queue in seen:
            continue
        seen.add(run.queue)
        if before is None or run.woken_at is None or run.woken_at < before:
            wake(run.pk)
            woken += 1
    return woken


def wake(run_id: int) -> None:
    """Wake the workers of the run's class. Which run a worker claims is decided when it claims.

    Without Redis nothing is lost: the reaper wakes them later.
    """
    queue, now = Run.objects.annotate(now=Now()).values_list("queue", "now").get(pk=run_id)
    Run.objects.filter(pk=run_id).update(woken_at=now)
    expires = now + WAKE_INTERVAL  # by the clock of the database: a worker with a wrong clock must not drop the message
    publisher().in_background(lambda: current_app.send_task(TRAIN_TASK, (run_id,), queue=queue, expires=expires))
