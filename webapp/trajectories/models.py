"""Groups, trajectories, turns and token arrays, written by the ingest, and share links."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KT
from django.db.models.functions import Left

from webapp.core import ids
from webapp.runs.models import Run, WorkerRequest, readable_by
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_SEARCHED_LENGTH = 50_000
"""Indexed characters of a thought: PostgreSQL rejects rows whose text vector exceeds a megabyte."""


BRANCH = "branch"
"""Split of branches: attempts that a policy played on from a position of a recorded one (webapp/branching)."""

M = TypeVar("M", bound=models.Model)


class WithoutBranches(models.Manager[M]):
    """What runs recorded. The default, so that branches count in no metric, list, facet or export of a run.

    Foreign keys lead to branches too: Django follows them with the plain base manager.
    """

    def get_queryset(self) -> models.QuerySet[M]:
        return super().get_queryset().exclude(split=BRANCH)


class Group(models.Model):
    """Trajectories from the same initial state."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="groups")
    attempt = models.PositiveIntegerField()
    iteration = models.IntegerField()
    split = models.CharField(max_length=6)
    suite = models.CharField(max_length=100, blank=True)
    number = models.PositiveIntegerField(help_text="0-based within iteration, split and suite.")
    superseded = models.BooleanField(
        default=False, help_text="Replaced by a later attempt, but kept for its share links."
    )
    environment = models.CharField(max_length=100)
    seed = models.BigIntegerField()
    prompt = models.TextField()
    board = models.JSONField()
    hint = models.JSONField(null=True)
    mean = models.FloatField(null=True)
    std = models.FloatField(null=True)
    kept = models.BooleanField(null=True, help_text="Whether the filter kept it for the update.")
    extra = models.JSONField(null=True, help_text="Further fields that a recorder gave its start.")

    objects = WithoutBranches["Group"]()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "iteration", "split", "suite", "number", "attempt"], name="one_group_per_number"
            ),
        ]
        indexes = [
            models.Index(fields=["run", "-id"], name="group_newest"),
            models.Index(fields=["run", "seed"], name="group_same_prompt"),
        ]

    def __str__(self) -> str:
        return f"group {self.number} of iteration {self.iteration}"


class TrajectoryQuerySet(models.QuerySet["Trajectory"]):
    def visible_to(self, user: User | AnonymousUser) -> TrajectoryQuerySet:
        """Return trajectories of the runs that the user may read."""
        return self.filter(readable_by(user, "run__"))

    def current(self) -> TrajectoryQuerySet:
        """Return trajectories not replaced by a later attempt."""
        return self.filter(superseded=False)


class Trajectory(models.Model):
    """One episode: states, thoughts, actions and rewards, turn by turn."""

    class Status(models.TextChoices):
        WAITING = "waiting", "Waiting"
        PLAYING = "playing", "Playing"
        SUCCESS = "success", "Success"
        FAILED = "failed", "Failed"
        INTERRUPTED = "interrupted", "Interrupted"
        UNKNOWN = "unknown", "Ended, success not known"

    COUNTED = (Status.SUCCESS, Status.FAILED)
    """Attempts counted by success rates: others were interrupted by a pause, or their success is unknown."""
    ENDED = (*COUNTED, Status.INTERRUPTED, Status.UNKNOWN)

    class WorstMark(models.IntegerChoices):
        UNKNOWN = -1, "Not judged"  # the environment's solver has no value of its states
        NONE = 0, "None"
        INACCURACY = 1, "Inaccuracy"
        MISTAKE = 2, "Mistake"
        BLUNDER = 3, "Blunder"

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="trajectories")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="trajectories")
    attempt = models.PositiveIntegerField()
    key = models.CharField(max_length=100, help_text="Its id in the journal.")
    member = models.PositiveIntegerField(help_text="0-based within the group.")
    iteration = models.IntegerField()
    split = models.CharField(max_length=6)
    superseded = models.BooleanField(default=False)
    status = models.CharField(max_length=11, choices=Status.choices, default=Status.WAITING)
    end = models.CharField(max_length=12, blank=True)
    total_reward = models.FloatField(default=0.0)
    rewarded = models.BooleanField(default=True, help_text="Whether a reward was recorded; without one the total is 0.")
    turn_count = models.PositiveIntegerField(default=0)
    action_count = models.PositiveIntegerField(default=0)
    token_count = models.PositiveIntegerField(
        default=0, null=True, help_text="Sampled tokens; null: not known, in runs of other trainers."
    )
    format_error = models.BooleanField(
        default=False,
        null=True,
        help_text="At least one turn broke the format; null: not judged, in runs of other trainers.",
    )
    true_claims = models.PositiveIntegerField(
        null=True,
        help_text="Statements of its thoughts that hold; null where thoughts were not compared with the state.",
    )
    false_claims = models.PositiveIntegerField(null=True, help_text="Statements of its thoughts that do not hold.")
    false_claim_kinds = ArrayField(
        models.CharField(max_length=24),
        default=list,
        help_text="What its false claims are about, names of envs.claims.kinds in alphabetical order.",
    )
    worst_mark = models.SmallIntegerField(
        null=True,
        choices=WorstMark.choices,
        help_text="The worst mark of its actions; null until it has been judged, after its end.",
    )
    first_mistake_turn = models.PositiveIntegerField(
        null=True, help_text="Turn of its first mistake or blunder, 0-based; null where there is none."
    )
    lost_at = models.JSONField(null=True, help_text="First action after which success was out of reach.")
    lost_turn = models.PositiveIntegerField(null=True, help_text="Turn of lost_at, 0-based.")
    end_reason = models.CharField(
        max_length=24, blank=True, default="", help_text="How it ended, a code of end_reasons.py; empty before."
    )
    training_use = models.CharField(
        max_length=20,
        blank=True,
        default="",
        db_default="",
        help_text="Whether the update learnt from it and else why not, a code of trainer.metrics.training_use; empty: "
        "not known, or an evaluation.",
    )
    mismatch = models.FloatField(
        null=True,
        help_text="Mean absolute difference of trainer's and sampler's log-probabilities, nats; null: not known.",
    )
    commentary = models.TextField(
        blank=True, default="", help_text="What decided it, in a sentence or two; empty until it has been judged."
    )
    error = models.TextField(blank=True)
    extra = models.JSONField(null=True, help_text="Further fields that a recorder gave its end.")
    last_seq = models.PositiveBigIntegerField(default=0, help_text="Its newest event.")
    finished_seq = models.PositiveBigIntegerField(null=True)
    pinned = models.BooleanField(default=False, help_text="Exempt from retention.")

    objects = WithoutBranches.from_queryset(TrajectoryQuerySet)()
    with_branches = TrajectoryQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt", "key"], name="one_trajectory_per_key")]
        indexes = [
            models.Index(fields=["run", "iteration", "split"], name="trajectory_iteration"),
            models.Index(fields=["run", "total_reward"], name="trajectory_reward"),
            models.Index(
                fields=["run", "-finished_seq"], name="trajectory_finished", condition=Q(finished_seq__isnull=False)
            ),
            models.Index(fields=["run", "-last_seq"], name="trajectory_playing", condition=Q(status="playing")),
            models.Index(
                fields=["-id"],
                name="trajectory_unjudged",
                condition=Q(worst_mark__isnull=True, finished_seq__isnull=False),
            ),
            GinIndex(SearchVector("commentary", config="simple"), name="trajectory_commentary"),
            GinIndex(fields=["false_claim_kinds"], name="trajectory_false_kinds", condition=~Q(false_claim_kinds=[])),
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.run_id}"

    @property
    def success(self) -> bool | None:
        """True if it was solved; None while it is played, if it was interrupted, or if it is unknown."""
        return self.status == self.Status.SUCCESS if self.status in self.COUNTED else None

    @property
    def reward(self) -> float | None:
        """Its total reward so far; None if none was recorded."""
        return self.total_reward if self.rewarded else None


class Turn(models.Model):
    """A turn: its journal event, and the columns that lists and filters need."""

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="turns")
    number = models.PositiveIntegerField(help_text="0-based.")
    seq = models.PositiveBigIntegerField()
    reward = models.FloatField()
    format_valid = models.BooleanField(null=True, help_text="null: not judged, in runs of other trainers.")
    event = models.JSONField(help_text="The journal's turn event.")
    marks = models.JSONField(null=True, help_text="Marks of its actions, once judged; null where there are none.")
    words = models.GeneratedField(
        expression=SearchVector(
            Left(KT("event__thought"), MAX_SEARCHED_LENGTH),
            Left(KT("event__answer"), MAX_SEARCHED_LENGTH),
            config="simple",
        ),
        output_field=SearchVectorField(),
        db_persist=True,
        help_text="Thought and answer for full-text search.",
    )

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["trajectory", "number"], name="one_turn_per_number")]
        indexes = [GinIndex(fields=["words"], name="turn_words")]

    def __str__(self) -> str:
        return f"turn {self.number}"


class TokenArrays(models.Model):
    """Tokens of a trajectory: what it read and wrote, with the values of sampler and learner."""

    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, related_name="token_arrays")
    data = models.BinaryField(help_text="Packed as in the journal.")
    computed_from = models.IntegerField(
        null=True,
        help_text="Finished iterations of the weights from which they were computed; null: the trainer recorded them.",
    )

    def __str__(self) -> str:
        return f"tokens of {self.trajectory_id}"


class TokenComputation(WorkerRequest):
    """A request to compute the tokens of a trajectory from a checkpoint, until it has succeeded."""

    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, related_name="token_computation")

    class Meta:
        indexes = [models.Index(fields=["state", "requested_at"], name="token_computation_queue")]

    def __str__(self) -> str:
        return f"tokens of {self.trajectory_id}, {self.state}"


class ShareLinkQuerySet(models.QuerySet["ShareLink"]):
    def open(self, now: datetime) -> ShareLinkQuerySet:
        """Return links that are neither revoked nor expired."""
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True)


class ShareLink(models.Model):
    """A public link to one trajectory."""

    token = models.CharField(max_length=32, unique=True, default=ids.token, editable=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="shares")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="shares")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    turn = models.PositiveIntegerField(null=True, blank=True, help_text="0-based: where the player opens.")
    action = models.PositiveIntegerField(null=True, blank=True, help_text="0-based, within the turn.")
    indexable = models.BooleanField(default=False, help_text="Whether search engines may index it.")
    views = models.PositiveIntegerField(default=0)
    last_viewed_at = models.DateTimeField(null=True, blank=True)

    objects = ShareLinkQuerySet.as_manager()

    def __str__(self) -> str:
        return f"link to {self.trajectory}"
