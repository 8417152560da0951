"""Saved views: a name for the filters, order and hidden columns of the explorer or the list of runs.

A view of the explorer that is shared with a team can be watched, and its attempts labelled.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import F, Q

from trainer.metrics.registry import WATCHED_PREFIX
from webapp.core.soft_delete import NotDeleted, SoftDeleted
from webapp.runs.models import Run
from webapp.teams.models import Team, User
from webapp.trajectories.models import Trajectory

MAX_NAME_LENGTH = 60
MAX_QUERY_LENGTH = 1000


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    def visible_to(self, user: User) -> SavedViewQuerySet:
        """The user's own views and those that members share with one of the user's teams."""
        shared = Q(team__in=user.memberships.values("team"), author__memberships__team=models.F("team"))
        return self.filter(Q(author=user) | shared).distinct()

    def shared_with(self, team_id: int) -> SavedViewQuerySet:
        """Return views of the explorer that present members share with the team."""
        return self.filter(list=SavedView.List.TRAJECTORIES, team=team_id, author__memberships__team=team_id)

    def watched(self) -> SavedViewQuerySet:
        """Return watched views whose authors are still in the team."""
        return self.exclude(curve="").filter(author__memberships__team=F("team"))


class SavedView(SoftDeleted):
    """A saved query string of a list."""

    class List(models.TextChoices):
        RUNS = "runs", "List of runs"
        TRAJECTORIES = "trajectories", "Trajectories of a run"

    author = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, related_name="saved_views", help_text="Shared with; null = private."
    )
    list = models.CharField(max_length=12, choices=List.choices)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    query = models.CharField(max_length=MAX_QUERY_LENGTH, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    scanner = models.CharField(
        max_length=MAX_NAME_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text="Slug of the shipped scanner that it was made of, with which it shares its labels.",
    )
    curve = models.CharField(
        max_length=MAX_NAME_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text="Last part of the metric with its shares of attempts; empty: it is not watched.",
    )
    watched_since = models.DateTimeField(null=True)
    threshold = models.FloatField(null=True, help_text="Share, 0 to 1, above which there is an alert; null: no alert.")

    objects = NotDeleted.from_queryset(SavedViewQuerySet)()

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["author", "list", "name"], name="one_view_per_name", condition=Q(deleted_at=None)
            ),
            models.UniqueConstraint(
                fields=["team", "curve"], name="one_view_per_curve", condition=Q(deleted_at=None) & ~Q(curve="")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.author_id}"

    @property
    def metric(self) -> str:
        """Name of the metric with its shares of attempts, while it is watched."""
        return f"{WATCHED_PREFIX}{self.curve}"

    @property
    def threshold_percent(self) -> str:
        """The threshold as a field of a form has it; empty without one."""
        return "" if self.threshold is None else f"{100 * self.threshold:g}"


class WatchedRun(models.Model):
    """State of a run up to which the shares of a watched view have been computed."""

    STATE = ("attempt", "iteration", "end_reason", "rebuilds")
    """Columns that are copied from the run: one of them changes whenever an iteration has ended or was undone."""

    view = models.ForeignKey(SavedView, on_delete=models.CASCADE, related_name="watched_runs")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    attempt = models.PositiveIntegerField()
    iteration = models.IntegerField()
    end_reason = models.CharField(max_length=20, blank=True)
    rebuilds = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["view", "run"], name="one_state_per_watched_run")]

    def __str__(self) -> str:
        return f"view {self.view_id} in run {self.run_id}, to iteration {self.iteration}"

    @classmethod
    def state_of(cls, run: Run) -> dict[str, Any]:
        """Return the state of a run."""
        return {name: getattr(run, name) for name in cls.STATE}


class Label(models.Model):
    """A member's answer to whether an attempt is what a shared view, or a shipped scanner, looks for.

    It says nothing about the filters of the view, so it remains true when they change.
    """

    view = models.ForeignKey(SavedView, on_delete=models.CASCADE, null=True, related_name="labels")
    scanner = models.CharField(max_length=MAX_NAME_LENGTH, blank=True, help_text="Slug of a scanner; then view = null.")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="labels")
    right = models.BooleanField(help_text="Whether the attempt is what the view looks for.")
    sampled = models.BooleanField(help_text="Whether it was drawn at random from what the view did not find.")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    labelled_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["view", "scanner", "trajectory"], name="one_label_per_attempt", nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return f"{'yes' if self.right else 'no'} for {self.scanner or self.view_id} on {self.trajectory_id}"
