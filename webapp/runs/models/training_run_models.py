"""Training runs, and access to them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import JSONObject
from django.utils import timezone
from pydantic import ValidationError

import envs
from trainer.config.removed import stored_config, without_removed
from trainer.config.resources import ActorRequest, ClusterConfig
from trainer.config.run import POCKET
from webapp.core import formatting, ids
from webapp.core.database import Moment
from webapp.runs.condition import Condition, get_condition, get_policy_condition
from webapp.runs.models.worker_models import Worker
from webapp.runs.queue import placement
from webapp.teams.models import Membership, Team, User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


def readable_by(user: User | AnonymousUser, run: str = "") -> Q:
    """Return a condition on runs that the user may read; `run` is a lookup prefix from another model, e.g. "run__".

    Private: the author while in the team, and the team's admins. Team: all members. Link: anyone.
    """
    public = Q(**{f"{run}visibility": Run.Visibility.LINK})
    if not user.is_authenticated:
        return public
    places = Membership.objects.filter(user_id=user.pk)
    inside = Q(**{f"{run}team__in": places.values("team")})
    private = Q(**{f"{run}visibility": Run.Visibility.PRIVATE})
    authored = Q(**{f"{run}author": user.pk})
    administered = Q(**{f"{run}team__in": places.filter(role=Membership.Role.ADMIN).values("team")})
    return public | (inside & (~private | authored)) | administered


class RunQuerySet(models.QuerySet["Run"]):
    def visible_to(self, user: User | AnonymousUser) -> RunQuerySet:
        """Return runs that the user may read: runs of their teams, and public ones."""
        return self.filter(readable_by(user))

    def listed_for(self, user: User | AnonymousUser) -> RunQuerySet:
        """Return runs for the user's lists: runs of their teams, without other members' private runs."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(
            ~Q(visibility=Run.Visibility.PRIVATE)
            | Q(author_id=user.pk)
            | Q(team__memberships__role=Membership.Role.ADMIN),
            team__memberships__user_id=user.pk,
        )

    def with_alarm(self) -> RunQuerySet:
        """Annotate each run with its current alarm, so that `Run.alarm` and `Run.condition` need no query."""
        alarms = apps.get_model("runs", "Alarm").objects.filter(run=OuterRef("pk"), undone=False)
        newest = alarms.order_by("-seq", "-pk").values(
            alarm=JSONObject(state="state", message="message", iteration="iteration")
        )
        return self.annotate(standing_alarm=Subquery(newest[:1]))

    def claimable(self, now: datetime) -> RunQuerySet:
        """Return queued runs, and runs with an expired lease."""
        return self.filter(Q(state=Run.State.QUEUED) | Q(state__in=Run.HELD, lease_expires_at__lt=now))

    def held_by(self, lease: str) -> RunQuerySet:
        """Return runs under this lease. Supervisors restrict all their writes to it."""
        return self.filter(lease=lease, state__in=Run.HELD)

    def lost(self, now: Moment) -> RunQuerySet:
        """Return runs whose worker has not renewed their lease in time."""
        return self.filter(state__in=Run.HELD, lease_expires_at__lt=now)


class Run(models.Model):
    """A training run."""

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        STARTING = "starting", "Starting"
        RUNNING = "running", "Running"
        PAUSED = "paused", "Paused"
        STOPPED = "stopped", "Stopped"
        FINISHED = "finished", "Finished"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    class Request(models.TextChoices):
        NONE = "", "Nothing"
        PAUSE = "pause", "Pausing"
        STOP = "stop", "Stopping"
        CANCEL = "cancel", "Cancelling"

    class Visibility(models.TextChoices):
        PRIVATE = "private", "Its author and the team's admins"
        TEAM = "team", "The team"
        LINK = "link", "Anyone with the link"

    class Priority(models.IntegerChoices):
        LOW = 0, "Low"
        NORMAL = 1, "Normal"
        HIGH = 2, "High"

        @classmethod
        def named(cls, name: str) -> Run.Priority | None:
            """Return the priority with that name, e.g. “high”; None if there is none."""
            return cls.__members__.get(name.upper())

        @classmethod
        def named_or_normal(cls, name: str) -> Run.Priority:
            """Return the priority with that name; normal if there is none."""
            return cls.__members__.get(name.upper(), cls.NORMAL)  # not by `or`: low is 0

        @classmethod
        def options(cls) -> list[tuple[str, str]]:
            """Return (name, label) of each priority, for forms."""
            return [(choice.name.lower(), choice.label) for choice in cls]

    HELD = (State.STARTING, State.RUNNING)
    RESUMABLE = (State.PAUSED, State.STOPPED, State.FAILED)
    ENDED = (State.STOPPED, State.FINISHED, State.FAILED, State.CANCELLED)

    # Identity and request
    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="runs")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="runs")
    title = models.CharField(max_length=200)
    config = models.JSONField(help_text="The complete RunConfig.")
    preset = models.CharField(max_length=100, blank=True)
    environment = models.CharField(max_length=100)
    tags = models.JSONField(default=list)
    group = models.CharField(max_length=80, blank=True, help_text="Experiment it belongs to, such as arms and seeds.")
    notes = models.TextField(blank=True, help_text="What the team wrote about the run, in Markdown.")
    archived_at = models.DateTimeField(null=True, blank=True, help_text="Since when lists leave it out.")
    imported = models.BooleanField(default=False, help_text="Trained elsewhere; its journal was imported.")
    launch_key = models.CharField(
        max_length=40, blank=True, help_text="From the launch form: submitted again, it gives the same run."
    )
    visibility = models.CharField(max_length=7, choices=Visibility.choices, default=Visibility.TEAM)

    # Scheduling
    queue = models.CharField(max_length=100, default="training", help_text="Requested device class; training = any.")
    priority = models.SmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)
    gpus = models.PositiveSmallIntegerField(default=0, help_text="GPUs requested on one worker.")
    memory = models.BigIntegerField(null=True, blank=True, help_text="Estimated bytes; empty if unknown.")
    memory_without_gpu = models.BigIntegerField(
        null=True, blank=True, help_text="Estimated bytes if it requests a GPU and runs without one; empty if unknown."
    )
    queued_at = models.DateTimeField(null=True, blank=True, help_text="Start of its wait; kept when it is re-queued.")
    woken_at = models.DateTimeField(null=True, blank=True, help_text="Time of the last wake-up message to workers.")

    # State and lease
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    requested = models.CharField(max_length=10, choices=Request.choices, default=Request.NONE, blank=True)
    cancelled_from = models.CharField(
        max_length=10, choices=State.choices, blank=True, help_text="State before the cancellation, to undo it."
    )
    worker = models.ForeignKey(Worker, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs")
    claimed_by = models.JSONField(default=list, blank=True, help_text="Names of the workers that have claimed it.")
    lease = models.CharField(max_length=24, blank=True, help_text="Secret of the supervisor that holds the run.")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    supervisor = models.PositiveIntegerField(default=0, help_text="Process id of the supervisor on its worker's host.")
    reserved = models.JSONField(default=list, help_text="Indices of the GPUs reserved on its worker.")
    promised = models.ForeignKey(
        Worker,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="promises",
        help_text="Worker that claims no other run until this one fits.",
    )

    # Failures
    crashes = models.PositiveIntegerField(default=0, help_text="Consecutive crashes without a finished iteration.")
    crash_iteration = models.IntegerField(default=0)
    failure = models.TextField(blank=True, help_text="Reason of the failure.")
    log_tail = models.TextField(blank=True, help_text="The last lines of the log when it failed.")

    # Progress, projected from the journal
    attempt = models.PositiveIntegerField(default=0, help_text="Attempt in the journal; 0 before its first line.")
    continued_from = models.IntegerField(default=0, help_text="Finished iterations when the attempt began.")
    iterations = models.PositiveIntegerField(default=0, help_text="Planned.")
    iteration = models.IntegerField(default=0, help_text="Finished; negative during a warm-up on demonstrations.")
    device = models.CharField(max_length=200, blank=True)
    parameters = models.BigIntegerField(default=0)
    phase = models.CharField(max_length=20, blank=True)
    phase_iteration = models.PositiveIntegerField(default=0)
    phase_done = models.PositiveBigIntegerField(default=0)
    phase_total = models.PositiveBigIntegerField(default=0)
    phase_unit = models.CharField(max_length=40, blank=True)
    tokens_per_second = models.FloatField(null=True, blank=True)
    eta_seconds = models.FloatField(null=True, blank=True)
    eta_low_seconds = models.FloatField(null=True, blank=True)
    eta_high_seconds = models.FloatField(null=True, blank=True)
    faults = models.JSONField(default=list, db_default=[], help_text="Present faults, as in the newest faults event.")
    training_use = models.JSONField(
        null=True, help_text="iteration of the newest attempts_used event, and counts of attempts by training use."
    )
    phase_progress = models.JSONField(default=dict, help_text="share, iteration_shares and update of the phase event.")
    end_reason = models.CharField(max_length=20, blank=True, help_text="run_finished.reason of the newest attempt.")
    end_message = models.TextField(blank=True)
    summary = models.JSONField(default=dict)

    # Files and ingest
    data_folder = models.CharField(max_length=24, blank=True, help_text="Identity of its data folder.")
    copy = models.CharField(max_length=24, blank=True, help_text="Token of the current copy of the folder.")
    kept_iteration = models.IntegerField(default=-1, help_text="Newest checkpoint in object storage; -1 = none.")
    storage_error = models.TextField(blank=True, help_text="Reason why its files cannot be copied to object storage.")
    journal_offset = models.PositiveBigIntegerField(default=0, help_text="Bytes of the journal ingested.")
    journal_tail = models.CharField(max_length=60, blank=True, help_text="Size and digest of the last line ingested.")
    rebuilds = models.PositiveIntegerField(default=0, help_text="Number of rebuilds of the tables from the journal.")
    rebuild_requested = models.BooleanField(default=False)
    seq = models.PositiveBigIntegerField(default=0, help_text="Events of the journal ingested.")
    resync_seq = models.PositiveBigIntegerField(default=0, help_text="Clients at an earlier event must reload.")
    journal_error = models.TextField(blank=True, help_text="Why the journal cannot be read further, and what to do.")

    # Times
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    progressed_at = models.DateTimeField(default=timezone.now, help_text="When its state or its journal last changed.")

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["team", "-created_at"], name="run_list"),
            models.Index(fields=["team", "group"], name="run_group", condition=~Q(group="")),
            models.Index(fields=["state", "lease_expires_at"], name="run_claim"),
            models.Index(fields=["queue"], name="run_line", condition=Q(state="queued")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["author", "launch_key"], name="one_run_per_launch", condition=~Q(launch_key="")
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def phase_facts(self) -> dict[str, Any] | None:
        """Current phase and progress, as in the snapshot; None before the first phase."""
        if not self.phase:
            return None
        return {
            "phase": self.phase,
            "iteration": self.phase_iteration,
            "done": self.phase_done,
            "total": self.phase_total,
            "unit": self.phase_unit,
            "tokens_per_second": self.tokens_per_second,
            "eta_seconds": self.eta_seconds,
            "eta_low_seconds": self.eta_low_seconds,
            "eta_high_seconds": self.eta_high_seconds,
            "share": self.phase_progress.get("share"),
            "iteration_shares": self.phase_progress.get("iteration_shares"),
            "update": self.phase_progress.get("update"),
        }

    @property
    def shown_state(self) -> str:
        """The state on pages: "pausing", "stopping" or "cancelling" while a request is pending."""
        return self.Request(self.requested).label.lower() if self.requested else self.state

    @cached_property
    def alarm(self) -> dict[str, Any] | None:
        """The newest change of state that no rewind undid, as in the snapshot. One query unless `with_alarm`."""
        if "standing_alarm" in self.__dict__:
            annotated: dict[str, Any] | None = self.__dict__["standing_alarm"]
            return annotated
        alarms = self.alarms.filter(undone=False).order_by("-seq", "-pk")
        newest = alarms.values("state", "message", "iteration").first()
        return dict(newest) if newest else None

    @property
    def condition(self) -> Condition | None:
        """The worst trouble of the run: of its policy, or of what it is trained with; None without any."""
        return get_condition(self.alarm, self.faults)

    @property
    def policy_condition(self) -> Condition | None:
        """Trouble of the policy according to the Echo Trap detector; None without any."""
        return get_policy_condition(self.alarm)

    @property
    def recorded(self) -> dict[str, Any] | None:
        """Settings recorded by another trainer; None for runs of Echoscope's trainer."""
        recorded: dict[str, Any] | None = self.config.get("recorded")
        return recorded

    @property
    def is_hosted(self) -> bool:
        """Whether the policy is a hosted model."""
        return bool((self.config.get("hosted") or {}).get("url"))

    @property
    def task_noun(self) -> str:
        """Name of an initial state on pages: tasks of other trainers are not puzzles."""
        return "puzzle" if self.recorded is None else "task"

    def suite_label(self, suite: str) -> str:
        """Return the display name of a suite, with the variant if the run is trained in that environment."""
        environment = self.config.get("environment")
        if not isinstance(environment, dict):  # of another trainer
            return suite
        for entry in (environment, *environment.get("mix", ())):
            if entry.get("name") == suite:
                return envs.label(suite, entry.get("settings"))
        return suite

    @property
    def warmup_steps(self) -> int:
        """Steps on demonstrations before the first iteration, as `RunConfig.warmup_steps`."""
        trains = self.config.get("kind") == "train" and self.config.get("policy", {}).get("model") != POCKET
        return int(self.config.get("sft", {}).get("warmup_steps") or 0) if trains else 0

    @property
    def length(self) -> formatting.RunLength:
        """Planned and finished iterations and steps."""
        share = 0.0
        if self.warmup_steps:
            with suppress(ValidationError):  # settings that this version no longer accepts
                share = stored_config(self.config).warmup_share
        return formatting.RunLength(self.iterations, self.iteration, self.warmup_steps, share)

    @property
    def start_text(self) -> str:
        """Time of the evaluation at iteration 0. Another trainer's run, e.g. an imported evaluation, may not train."""
        if self.recorded is not None:
            return "at iteration 0"
        return "after the warm-up" if self.warmup_steps else "before training"

    @property
    def place_text(self) -> str:
        """Progress of the run, e.g. “iteration 8 of 40” or “part of the warm-up”."""
        if self.iteration < 0:
            return "part of the warm-up"
        return f"iteration {self.iteration} of {self.iterations}" if self.iterations else f"iteration {self.iteration}"

    def when(self, iteration: int) -> str:
        """Return the time of an event, e.g. “after iteration 8” or “after step 5 of the warm-up”."""
        if iteration > 0:
            return f"after iteration {iteration}"
        step = self.warmup_steps + iteration
        if iteration == 0:
            return self.start_text
        return f"after step {step} of the warm-up" if step > 0 else "before the warm-up"

    @property
    def end_text(self) -> str:
        """Reason of the end; may be empty."""
        return self.failure if self.state == self.State.FAILED else self.end_message

    @property
    def needs(self) -> placement.ResourceRequest:
        """Resources that a worker must have to take the run."""
        optional = self.config.get("policy", {}).get("device") != "cuda" and self.gpus <= 1
        return placement.ResourceRequest(
            self.queue, self.gpus, self.memory, optional, self.actors, memory_without_gpu=self.memory_without_gpu
        )

    @property
    def memory_held(self) -> int | None:
        """Memory in bytes that the run uses on its reserved GPUs, or on the machine without any."""
        without_gpu = self.memory_without_gpu
        return self.memory if self.reserved or without_gpu is None else without_gpu

    @property
    def actors(self) -> tuple[ActorRequest, ...]:
        """Ray actors that the run needs; empty also for a configuration that the trainer will refuse."""
        settings = without_removed(self.config).get("cluster") or {}
        if not (settings.get("rollout_actors") or settings.get("learners")):
            return ()
        try:
            cluster = ClusterConfig.model_validate(settings)
        except ValidationError:
            return ()
        return cluster.actors(self.config.get("kind", "train"), self.config.get("policy", {}).get("device", "auto"))

    @property
    def folder(self) -> Path:
        """Folder of the configuration, journal, log and checkpoints."""
        return Path(settings.ECHOSCOPE_DATA_DIR) / "runs" / self.slug
