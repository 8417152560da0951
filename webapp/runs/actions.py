"""Changes of a run's state, each a conditional update: the second concurrent writer is a no-op."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery import current_app
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from trainer.config.run import RunConfig
from webapp.core.database import RowLocked, lock_wait
from webapp.core.publisher import publisher
from webapp.runs import object_storage
from webapp.runs.launch import estimates
from webapp.runs.models import EventBatch, Run, RunQuerySet, Worker
from webapp.runs.queue import device_classes, fair_share, order
from webapp.teams.models import Team, User

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


@dataclass(frozen=True)
class SchedulingOptions:
    """Queue, GPUs and priority of a run. Empty and None: the defaults of its configuration."""

    queue: str = ""
    gpus: int | None = None
    priority: Run.Priority = Run.Priority.NORMAL

    def resolved(self, config: RunConfig, available: Collection[str]) -> tuple[str, int]:
        """(device class, GPUs), with the configuration's defaults for open options.

        `available` are the classes that live workers serve.
        """
        several = self.gpus is not None and self.gpus > 1
        queue = self.queue or (device_classes.GPU if several else device_classes.suggested_class(config, available))
        return queue, device_classes.default_gpus(config, queue) if self.gpus is None else self.gpus


def options_for_clone(run: Run) -> SchedulingOptions:
    """Options of a clone: those that a user must have chosen; the configuration's defaults stay open."""
    is_default = run.queue in (device_classes.ANY, device_classes.CPU, device_classes.GPU)
    return SchedulingOptions("" if is_default else run.queue, run.gpus if run.gpus > 1 else None)


class RequestRefused(ValueError):
    """The run's state does not allow the request. The message is for users."""


def do_create_run(
    team: Team,
    author: User,
    config: RunConfig,
    *,
    preset: str = "",
    scheduling: SchedulingOptions | None = None,
    visibility: Run.Visibility = Run.Visibility.TEAM,
    launch_key: str = "",
) -> Run:
    """Create a queued run; workers are notified once it is committed.

    With the author's `launch_key` of an earlier call, that run is returned: a form that is sent again after a lost
    answer launches nothing twice.
    """
    now, scheduling = timezone.now(), scheduling or SchedulingOptions()
    queue, gpus = scheduling.resolved(config, order.known_classes(now))
    run = Run(
        team=team,
        author=author,
        title=config.title(),
        config=config.model_dump(mode="json"),
        preset=preset,
        environment=config.environment.name,
        tags=config.tags,
        iterations=0 if config.kind == "evaluate" else config.iterations,
        queue=queue,
        gpus=gpus,
        memory=estimates.needed_memory(config, gpus),
        priority=scheduling.priority,
        queued_at=now,
        visibility=visibility,
        launch_key=launch_key,
    )
    try:
        with transaction.atomic():
            run.save(force_insert=True)
            _wake_on_commit(run.pk)
    except IntegrityError:
        earlier = Run.objects.filter(author=author, launch_key=launch_key).first() if launch_key else None
        if earlier is None:
            raise
        return earlier
    return run


@transaction.atomic
def do_update_run(
    run: Run,
    *,
    title: str | None = None,
    tags: Sequence[str] | None = None,
    visibility: Run.Visibility | None = None,
    priority: Run.Priority | None = None,
) -> Run:
    """Change title, tags, visibility and priority of a run. None leaves a value unchanged."""
    values = {
        "title": title,
        "tags": None if tags is None else list(tags),
        "visibility": visibility,
        "priority": priority,
    }
    changes = {name: value for name, value in values.items() if value is not None}
    if changes:
        Run.objects.filter(pk=run.pk).update(**changes)
        for name, value in changes.items():
            setattr(run, name, value)
        notify_on_commit(run.pk)
        if priority is not None:
            wake_next_on_commit()
    return run


@transaction.atomic
def do_delete_run(run: Run) -> None:
    """Delete a run that has ended, with its rows, its folder and its copy. Raises RequestRefused."""
    locked = Run.objects.select_for_update().get(pk=run.pk)
    if locked.state not in Run.ENDED:
        raise RequestRefused(
            f"This run is {locked.get_state_display().lower()}: only runs that have ended can be deleted. Cancel it "
            "first."
        )
    folder, slug = locked.folder, locked.slug
    locked.delete()

    def delete_files() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        storage = object_storage.configured_storage()
        if storage is not None:
            try:
                object_storage.delete(storage, slug)
            except object_storage.failures() as error:  # the run is gone in any case
                logger.warning("The copy of run %s in storage could not be deleted: %s", slug, error)

    transaction.on_commit(delete_files)


def do_request(run: Run, request: str) -> Run:
    """Request "pause", "stop", "cancel" or "resume". Returns the updated run. Raises RequestRefused."""
    if run.imported:
        raise RequestRefused(
            f"This run was trained elsewhere, so it cannot {request} from here. Do that where it is trained, or "
            "clone it to train it here."
        )
    try:
        with lock_wait(REQUEST_LOCK_WAIT):
            match request:
                case "pause" | "stop" | "cancel":
                    changed = _interrupt(run.pk, Run.Request(request))
                case "resume":
                    changed = _resume(run.pk)
                case _:
                    raise RequestRefused(f"A run accepts pause, stop, cancel and resume, not {request!r}.")
    except RowLocked:
        raise RequestRefused(
            "The worker of this run does not answer at the moment, so nothing was changed. It is replaced within a "
            "minute: try again then."
        ) from None
    run.refresh_from_db()
    if not changed:
        raise RequestRefused(f"This run is {run.get_state_display().lower()}: it cannot {request} now.")
    return run


def do_request_rebuild(run: Run) -> None:
    """Request that the run's tables are rebuilt from its journal; the clock does it. Raises RequestRefused."""
    if run.imported:
        raise RequestRefused("This run was sent here, so its journal is not here: send it again as a new run.")
    active = (Run.State.STARTING, Run.State.RUNNING)
    if not Run.objects.filter(pk=run.pk).exclude(state__in=active).update(rebuild_requested=True):
        raise RequestRefused("This run is being trained: pause it first, then rebuild it and resume it.")


IDLE_STATES = {
    Run.Request.PAUSE: (Run.State.PAUSED, (Run.State.QUEUED,)),
    Run.Request.STOP: (Run.State.STOPPED, (Run.State.QUEUED, Run.State.PAUSED)),
    Run.Request.CANCEL: (Run.State.CANCELLED, (Run.State.QUEUED, Run.State.PAUSED, Run.State.STOPPED)),
}
"""Resulting state of a request while no process runs, and the states it applies to."""


@transaction.atomic
def _interrupt(run_id: int, request: Run.Request) -> bool:
    state, idle = IDLE_STATES[request]
    ended = None if state == Run.State.PAUSED else timezone.now()
    changed = Run.objects.filter(pk=run_id, state__in=idle).update(state=state, requested="", ended_at=ended)
    if not changed:  # a supervisor holds it: it reads the request within a second
        changed = Run.objects.filter(pk=run_id, state__in=Run.HELD).update(requested=request)
    if changed:
        notify_on_commit(run_id)
    return bool(changed)


@transaction.atomic
def _resume(run_id: int) -> bool:
    changed = Run.objects.filter(pk=run_id, state__in=Run.RESUMABLE).update(
        state=Run.State.QUEUED,
        requested="",
        failure="",
        log_tail="",
        crashes=0,
        ended_at=None,
        queued_at=timezone.now(),
        promised=None,
    )
    if changed:
        notify_on_commit(run_id)
        _wake_on_commit(run_id)
    return bool(changed)


def do_renew_lease(run: Run, now: datetime) -> Run | None:
    """Extend the lease. Returns the current run with its worker; None if the lease was lost."""
    if not Run.objects.held_by(run.lease).filter(pk=run.pk).update(lease_expires_at=now + LEASE):
        return None
    return Run.objects.select_related("worker").get(pk=run.pk)


@transaction.atomic
def do_release_run(run: Run, state: Run.State, *, failure: str = "", log_tail: str = "") -> bool:
    """Release the lease and leave the run in `state`. False if the lease was lost."""
    released = _release(
        Run.objects.held_by(run.lease),
        run,
        state,
        timezone.now(),
        failure=failure,
        log_tail=log_tail.replace("\0", "␀"),
        tokens_per_second=None,
        eta_seconds=None,
    )
    if released:
        wake_next_on_commit()
    return released


def _release(held: RunQuerySet, run: Run, state: Run.State, now: datetime, **changes: object) -> bool:
    """End the lease of the run if it is still among `held`. False otherwise."""
    changed = held.filter(pk=run.pk).update(
        state=state,
        requested="",
        lease="",
        lease_expires_at=None,
        worker=None,
        reserved=[],
        ended_at=now if state in Run.ENDED else None,
        **changes,
    )
    if changed:
        fair_share.end([run.pk], now)
        notify_on_commit(run.pk)
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
        with transaction.atomic():
            # a row that its supervisor locks is left for the next round: the database ends idle transactions
            run = Run.objects.lost(now).filter(pk=run_id).select_for_update(skip_locked=True).first()
            if run is None:
                continue
            request = Run.Request(run.requested)
            state = IDLE_STATES[request][0] if request in IDLE_STATES else Run.State.QUEUED
            if _release(Run.objects.lost(now).filter(lease=run.lease), run, state, now):
                logger.warning("Run %s lost its worker and is %s now.", run.slug, state.label.lower())
                count += 1
    return count + _wake_next(now - WAKE_INTERVAL)


def do_record_heartbeat(name: str, now: datetime, **description: object) -> Worker:
    """Record that a worker is alive, with its description."""
    worker, _ = Worker.objects.update_or_create(
        name=name,
        defaults={"last_seen_at": now, **description},
        create_defaults={"last_seen_at": now, "started_at": now, **description},
    )
    return worker


def do_prune(now: datetime) -> int:
    """Delete frames of runs that ended long ago (their pages read the tables) and old workers. Returns the frames."""
    Worker.objects.filter(last_seen_at__lt=now - WORKER_RETENTION).delete()
    fair_share.forget(now)
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


def _wake_on_commit(run_id: int) -> None:
    transaction.on_commit(lambda: wake(run_id))


def wake_next_on_commit() -> None:
    """Wake the workers for the first run of each queue: a change may let it start.

    A worker that claims a run wakes the next one, so one message per queue is enough however many places are free.
    """
    transaction.on_commit(_wake_next)


def _wake_next(before: datetime | None = None) -> int:
    """Wake the workers for the first run of each queue, unless they were woken for it after `before`."""
    seen: set[str] = set()
    woken, now = 0, timezone.now()
    runs = order.waiting()
    for run in order.claim_order(runs, fair_share.used(now) if runs else {}, now):
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
    queue = Run.objects.values_list("queue", flat=True).get(pk=run_id)
    Run.objects.filter(pk=run_id).update(woken_at=timezone.now())
    expires = WAKE_INTERVAL.total_seconds()
    publisher().in_background(lambda: current_app.send_task(TRAIN_TASK, (run_id,), queue=queue, expires=expires))
