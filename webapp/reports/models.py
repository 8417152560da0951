"""Reports of a team and their revisions."""

from __future__ import annotations

import html
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import F, Q
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.text import Truncator

from webapp.core import ids, markdown
from webapp.core.soft_delete import NotDeleted, SoftDeleted
from webapp.runs.models import Run
from webapp.teams.models import Membership, Team, User
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_TITLE_LENGTH = 200
MAX_NUMBER = 2**31 - 1
"""Maximum number of a revision: the largest integer of its column."""


class ReportQuerySet(models.QuerySet["Report"]):
    def visible_to(self, user: User | AnonymousUser) -> ReportQuerySet:
        """Return the reports that the user may read: reports of the user's teams, and open ones."""
        return self.filter(Q(visibility__in=Report.OPEN) | Q(team__in=_team_keys(user)))

    def listed_for(self, user: User | AnonymousUser) -> ReportQuerySet:
        """Return the reports of the user's teams, for lists."""
        return self.filter(team__in=_team_keys(user))

    def containing(self, text: str) -> ReportQuerySet:
        """Return the reports that contain every word of the text in their title or body."""
        reports = self
        for word in text.replace("\0", "").split()[:10]:
            reports = reports.filter(Q(title__icontains=word) | Q(body__icontains=word))
        return reports

    def mentioning(self, user: User | AnonymousUser, run: Run) -> ReportQuerySet:
        """Return the newest ten reports of the user's teams, and public ones of the run's team, that embed it."""
        public = Q(team=run.team_id, visibility=Report.Visibility.PUBLIC)
        reports = self.filter(public | Q(team__in=_team_keys(user)), runs=run)
        return reports.only("slug", "title", "edited_at")[:10]


def _team_keys(user: User | AnonymousUser) -> models.QuerySet[Membership, int]:
    """Return the primary keys of the user's teams; none without an account."""
    return Membership.objects.filter(user_id=user.pk or 0).values_list("team", flat=True)


class Report(SoftDeleted):
    """A document in Markdown. Lines that are only an address of this site are shown as embeds."""

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

    @property
    def is_open(self) -> bool:
        """Return True if it can be read without an account."""
        return self.visibility in self.OPEN

    @property
    def excerpt(self) -> str:
        """Return the beginning of its text, without headings, addresses and markup."""
        lines = (line for line in self.body[:2000].splitlines() if not line.startswith(("#", "/", "http")))
        text = " ".join(html.unescape(strip_tags(markdown.render("\n".join(lines)))).split())
        return Truncator(text).chars(180, truncate=" …")


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


def embedded_in_reports() -> Q:
    """Return a condition on trajectories: a report of the team that owns the trajectory embeds it."""
    embedded = Report.trajectories.through.objects.filter(trajectory__run__team=F("report__team"))
    return Q(pk__in=embedded.values("trajectory"))
