"""Stars, tags, comments, mentions, and the version of a trajectory's annotations that live pages compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.urls import reverse

from webapp.core import ids
from webapp.core.soft_delete import NotDeleted, SoftDeleted
from webapp.runs.models import readable_by
from webapp.teams.models import Team, User
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_TAG_LENGTH = 40
MAX_COMMENT_LENGTH = 4000


class AnnotationVersion(models.Model):
    """Number of changes to a trajectory's annotations. Open pages compare it with the version they show."""

    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, related_name="annotation_version")
    version = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"annotations of {self.trajectory_id}, version {self.version}"


class Star(models.Model):
    """A user's star on a trajectory."""

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="stars")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="stars")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created_at", "pk"]
        constraints = [models.UniqueConstraint(fields=["user", "trajectory"], name="one_star_per_person")]

    def __str__(self) -> str:
        return f"{self.user_id} stars {self.trajectory_id}"


class TagQuerySet(models.QuerySet["Tag"]):
    def known_to(self, user: User | AnonymousUser) -> TagQuerySet:
        """Return tags on trajectories that the user may see, without tags only on other members' private runs."""
        taggings = Tagging.objects.filter(readable_by(user, "trajectory__run__"), tag=models.OuterRef("pk"))
        return self.filter(models.Exists(taggings))


class Tag(models.Model):
    """A tag of a team."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="trajectory_tags")
    name = models.CharField(max_length=MAX_TAG_LENGTH)

    objects = TagQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_tag_per_name")]

    def __str__(self) -> str:
        return self.name


class Tagging(models.Model):
    """A tag on a trajectory."""

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="taggings")
    tag = models.ForeignKey(Tag, on_delete=models.CASCADE, related_name="taggings")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trajectory", "tag"], name="one_tagging_per_tag")]

    def __str__(self) -> str:
        return f"{self.tag} on {self.trajectory_id}"


class Comment(SoftDeleted):
    """A comment on a trajectory or on one of its turns. Plain text."""

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="comments")
    turn = models.PositiveIntegerField(null=True, blank=True, help_text="0-based; empty = the whole trajectory.")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="comments")
    text = models.CharField(max_length=MAX_COMMENT_LENGTH)
    created_at = models.DateTimeField(auto_now_add=True)
    edited_at = models.DateTimeField(null=True, blank=True)

    objects = NotDeleted["Comment"]()

    class Meta:
        ordering = ["created_at", "pk"]

    def __str__(self) -> str:
        return self.text[:60]

    @property
    def author_name(self) -> str:
        """Name of the author, who may have left."""
        return self.author.get_username() if self.author else "A former member"

    @property
    def address(self) -> str:
        """Path of the trajectory's page, at the comment's turn."""
        turn = "" if self.turn is None else f"?turn={self.turn + 1}"
        return f"{reverse('trajectory', args=[self.trajectory.slug])}{turn}#comment-{self.slug}"


class Mention(models.Model):
    """A mention of a member of the team in a comment."""

    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, related_name="mentions")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="mentions")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "comment"], name="one_mention_per_person")]

    def __str__(self) -> str:
        return f"{self.user_id} in comment {self.comment_id}"
