"""Studies of a team, their arms, and their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.urls import reverse

from webapp.core import ids
from webapp.runs.models import Run
from webapp.teams.models import Membership, Team, User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_TITLE_LENGTH = 80
"""Maximum length of a group's name, since the runs of a study are a group with its name."""


class StudyQuerySet(models.QuerySet["Study"]):
    def visible_to(self, user: User | AnonymousUser) -> StudyQuerySet:
        """Return studies that the user may read: studies of their teams, and studies open to anyone with the link."""
        shared = Q(visibility=Study.Visibility.LINK)
        if not user.is_authenticated:
            return self.filter(shared)
        return self.filter(shared | Q(team__in=Membership.objects.filter(user_id=user.pk).values("team")))

    def listed_for(self, user: User | AnonymousUser) -> StudyQuerySet:
        """Return studies for the user's lists: studies of their teams."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(team__in=Membership.objects.filter(user_id=user.pk).values("team"))


class Study(models.Model):
    """An experiment of many runs: arms × seeds, launched, steered and judged together."""

    class Kind(models.TextChoices):
        CATALOGUE = "catalogue", "Study of the paper"
        GRID = "grid", "Grid"
        RANDOM = "random", "Random search"
        BAYESIAN = "bayesian", "Bayesian search"

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        PAUSED = "paused", "Paused"
        CANCELLED = "cancelled", "Cancelled"
        FINISHED = "finished", "Finished"

    class Visibility(models.TextChoices):
        TEAM = "team", "The team"
        LINK = "link", "Anyone with the link"

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="studies")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="studies")
    title = models.CharField(max_length=MAX_TITLE_LENGTH, help_text="Also the group of its runs.")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    spec = models.JSONField(help_text="The plan, as in study_spec.py.")
    scheduling = models.JSONField(default=dict, help_text="Queue, GPUs, priority and readers of its runs.")
    visibility = models.CharField(max_length=4, choices=Visibility.choices, default=Visibility.TEAM)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    problem = models.TextField(blank=True, help_text="Why it launches no further trials, and what to do.")
    launch_key = models.CharField(
        max_length=40, blank=True, help_text="From the launch form: submitted again, it gives the same study."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = StudyQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "studies"
        ordering = ["-created_at", "-pk"]
        indexes = [
            models.Index(fields=["team", "-created_at"], name="study_list"),
            models.Index(fields=["state"], name="study_state", condition=~Q(state="cancelled")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["author", "launch_key"], name="one_study_per_launch", condition=~Q(launch_key="")
            ),
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("study", args=[self.slug])

    @property
    def is_open(self) -> bool:
        """True if the study can be read without an account."""
        return self.visibility == self.Visibility.LINK


class StudyArm(models.Model):
    """A variant that a study compares; a trial of a search."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="arms")
    number = models.PositiveIntegerField(help_text="From 1.")
    name = models.CharField(max_length=80)
    title = models.CharField(max_length=200)
    changes = models.JSONField(default=dict, help_text="Dotted setting → its value, where arms differ in it.")
    rungs = models.JSONField(default=dict, help_text="Rung of early stopping, from 0 → the value of the arm there.")
    stopped = models.TextField(blank=True, help_text="Why it was stopped early.")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["study", "number"], name="one_arm_per_number")]

    def __str__(self) -> str:
        return self.title


class StudyRun(models.Model):
    """A run of a study: its arm, environment and seed."""

    arm = models.ForeignKey(StudyArm, on_delete=models.CASCADE, related_name="members")
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="study_run")
    environment = models.CharField(max_length=100, help_text="As the study names it.")
    seed = models.PositiveBigIntegerField()
    stop_requested = models.BooleanField(
        default=False, help_text="Its arm was stopped early and it was requested to stop; it may be resumed by hand."
    )

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.arm}, {self.environment}, seed {self.seed}"
