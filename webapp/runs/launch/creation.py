"""Creation of one run or of a group of runs, and their requests to the queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from trainer.config.run import RunConfig
from webapp.core.quotas import QuotaExceeded
from webapp.runs.actions import wake_on_commit
from webapp.runs.inputs import run_models
from webapp.runs.launch import estimates
from webapp.runs.launch.experiment import MAX_GROUP_NAME
from webapp.runs.models import Run
from webapp.runs.queue import device_classes, order, run_quotas
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Team, User

KEY_LENGTH = 36
"""Length of a group's launch key, to which its runs add their numbers."""


@dataclass(frozen=True)
class SchedulingOptions:
    """Queue, GPUs and priority of a run. Empty and None stand for the configuration's defaults."""

    queue: str = ""
    gpus: int | None = None
    priority: Run.Priority = Run.Priority.NORMAL

    def resolved(self, config: RunConfig, available: Collection[str]) -> tuple[str, int]:
        """Return (device class, GPUs), with the configuration's defaults for open options.

        `available` are the classes that live workers serve. The driver of Ray actors is one process, which uses at most
        one GPU; the GPUs of its actors are settings of the run.
        """
        if config.cluster.uses_ray:
            queue = self.queue or device_classes.suggested_class(config, available)
            return queue, min(1, device_classes.default_gpus(config, queue) if self.gpus is None else self.gpus)
        several = self.gpus is not None and self.gpus > 1
        queue = self.queue or (device_classes.GPU if several else device_classes.suggested_class(config, available))
        return queue, device_classes.default_gpus(config, queue) if self.gpus is None else self.gpus


def options_for_clone(run: Run) -> SchedulingOptions:
    """Return the options of a clone: only those that a user must have chosen, since the others are defaults."""
    is_default = run.queue in (device_classes.ANY, device_classes.CPU, device_classes.GPU)
    return SchedulingOptions("" if is_default else run.queue, run.gpus if run.gpus > 1 else None)


def do_create_run(
    team: Team,
    author: User,
    config: RunConfig,
    *,
    preset: str = "",
    scheduling: SchedulingOptions | None = None,
    visibility: Run.Visibility = Run.Visibility.TEAM,
    launch_key: str = "",
    group: str = "",
) -> Run:
    """Create a queued run; workers are notified once it is committed.

    Returns the author's existing run with this `launch_key`: a form that is sent again after a lost answer launches
    nothing twice. Raises QuotaExceeded.
    """
    scheduling = scheduling or SchedulingOptions()
    new = RunRequest(config, preset=preset, launch_key=launch_key)
    return do_create_runs(team, author, [new], scheduling=scheduling, visibility=visibility, group=group)[0]


@dataclass(frozen=True)
class RunRequest:
    """A run to create. `launch_key` is chosen by the author, or empty."""

    config: RunConfig
    preset: str = ""
    launch_key: str = ""


def do_create_runs(
    team: Team,
    author: User,
    requested: Sequence[RunRequest],
    *,
    scheduling: SchedulingOptions,
    visibility: Run.Visibility = Run.Visibility.TEAM,
    group: str = "",
) -> list[Run]:
    """Create queued runs, all of them or none; see do_create_run. Raises QuotaExceeded."""
    keys = [new.launch_key for new in requested if new.launch_key]
    if existing := _launched(author, keys):
        return existing
    now = timezone.now()
    known = order.known_classes(now)
    runs = [_new_run(team, author, new, scheduling, visibility, group, known, now) for new in requested]
    try:
        with transaction.atomic():
            run_quotas.require_place_in_queue(team.pk, count=len(runs))  # waits for other launches of the team
            if existing := _launched(author, keys):
                return existing
            for run in runs:
                run.save(force_insert=True)
                wake_on_commit(run.pk)
            if runs:
                subject = group or f"run “{runs[0].title}”"
                record(AuditAction.LAUNCHED, subject, team=team, runs=[run.slug for run in runs])
    except (IntegrityError, QuotaExceeded):  # the same launch may have been committed, and have taken the places
        if existing := _launched(author, keys):
            return existing
        raise
    return runs


def _launched(author: User, keys: Collection[str]) -> list[Run]:
    """Return the runs that the author has launched with these keys."""
    return list(Run.objects.filter(author=author, launch_key__in=keys).order_by("pk")) if keys else []


def _new_run(
    team: Team,
    author: User,
    new: RunRequest,
    scheduling: SchedulingOptions,
    visibility: Run.Visibility,
    group: str,
    known: Collection[str],
    now: datetime,
) -> Run:
    """Return the unsaved row of a queued run. Raises QuotaExceeded."""
    config = run_models.pinned(new.config)
    queue, gpus = scheduling.resolved(config, known)
    run = Run(
        team=team,
        author=author,
        title=config.title(),
        config=config.model_dump(mode="json"),
        preset=new.preset,
        environment=config.environment.name,
        tags=config.tags,
        group=group,
        iterations=0 if config.kind == "evaluate" else config.iterations,
        queue=queue,
        gpus=gpus,
        memory=estimates.needed_memory(config, gpus),
        memory_without_gpu=estimates.memory_without_gpu(config, gpus),
        priority=scheduling.priority,
        queued_at=now,
        visibility=visibility,
        launch_key=new.launch_key,
    )
    run_quotas.require_allowed_tags(config.tags)
    run_quotas.require_allowed_iterations(run.iterations)
    return run


def runs_beside(run: Run) -> list[Run]:
    """Return all runs of the launch to which this run belongs, in order."""
    key, _, number = run.launch_key.rpartition(".")
    if not key or not number.isdecimal():
        return [run]
    same = Run.objects.with_alarm().filter(author=run.author_id, launch_key__startswith=f"{key}.")
    return list(same.select_related("team", "author").order_by("pk"))


def free_name(team: Team, name: str) -> str:
    """Return the name, with a number if the team already has a group of that name."""
    start = name[: MAX_GROUP_NAME - 5]
    taken = set(Run.objects.filter(team=team, group__startswith=start).values_list("group", flat=True).distinct())
    if name not in taken:
        return name
    numbered = (f"{start} #{number}" for number in range(2, len(taken) + 3))
    return next(candidate for candidate in numbered if candidate not in taken)
