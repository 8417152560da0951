"""Saved views: a name for the filters, order and hidden columns of the explorer or the list of runs."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from webapp.core.soft_delete import NotDeleted, SoftDeleted
from webapp.teams.models import Team, User

MAX_NAME_LENGTH = 60
MAX_QUERY_LENGTH = 1000


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    def visible_to(self, user: User) -> SavedViewQuerySet:
        """The user's own views and those that members share with one of the user's teams."""
        shared = Q(team__in=user.memberships.values("team"), author__memberships__team=models.F("team"))
        return self.filter(Q(author=user) | shared).distinct()


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

    objects = NotDeleted.from_queryset(SavedViewQuerySet)()

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["author", "list", "name"], name="one_view_per_name", condition=Q(deleted_at=None)
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.author_id}"
