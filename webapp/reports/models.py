"""Reports of a team and their revisions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.urls import reverse

from webapp.core import ids
from webapp.core.soft_delete import NotDeleted, SoftDeleted
from webapp.runs.models import Run
from webapp.teams.models import Membership, Team, User
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_TITLE_LENGTH = 200


class ReportQuerySet(models.QuerySet["Report"]):
    def visible_to(self, user: User | AnonymousUser) -> ReportQuerySet:
        """Reports that the user may read: those of their teams, and those open to anyone."""
        return self.filter(Report.readable_by(user))

    def of_teams_of(self, user: User | AnonymousUser) -> ReportQuerySet:
        """Reports for lists: those of the user's teams."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(team__in=Membership.objects.filter(user_id=user.pk).values("team"))


class Report(SoftDeleted):
    """A document in Markdown. Lines that hold only an address of this site are shown as embeds."""

    class Visibility(models.TextChoices):
        TEAM = "team", "The team"
        LINK = "link", "Anyone with the link"
        PUBLIC = "public", "Public: anyone, and search engines may index it"

    OPEN = (Visibility.LINK, Visibility.PUBLIC)
    UNDO_TIME = timedelta(days=30)

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="reports")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="reports")
    title = models.CharField(max_length=MAX_TITLE_LENGTH)
    body = models.TextField(blank=True, help_text="Markdown.")
    visibility = models.CharField(max_length=6, choices=Visibility.choices, default=Visibility.TEAM)
    version = models.PositiveIntegerField(default=1, help_text="Number of its newest revision.")
    created_at = models.DateTimeField(auto_now_add=True)
    edited_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True, help_text="Since when lists leave it out.")
    runs = models.ManyToManyField(Run, related_name="reports", blank=True, help_text="Runs that it embeds.")
    trajectories = models.ManyToManyField(
        Trajectory, related_name="reports", blank=True, help_text="Trajectories that it embeds; retention keeps them."
    )

    objects = NotDeleted.from_queryset(ReportQuerySet)()

    class Meta:
        ordering = ["-edited_at", "-pk"]
        indexes = [models.Index(fields=["team", "-edited_at"], name="report_list")]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("report", args=[self.slug])

    @staticmethod
    def readable_by(user: User | AnonymousUser) -> Q:
        """Condition on reports that the user may read."""
        anyone = Q(visibility__in=Report.OPEN)
        if not user.is_authenticated:
            return anyone
        return anyone | Q(team__in=Membership.objects.filter(user_id=user.pk).values("team"))

    @property
    def is_open(self) -> bool:
        """Whether it can be read without an account."""
        return self.visibility in self.OPEN


class Revision(models.Model):
    """Title and body of a report as saved once."""

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField(help_text="From 1.")
    title = models.CharField(max_length=MAX_TITLE_LENGTH)
    body = models.TextField(blank=True)
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    restored = models.PositiveIntegerField(null=True, blank=True, help_text="The revision that it restored.")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["report", "number"], name="one_revision_per_number")]

    def __str__(self) -> str:
        return f"revision {self.number} of {self.report_id}"
