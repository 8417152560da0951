"""Notifications, followed runs, and users' notification preferences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.utils import timezone

from webapp.annotations.models import Comment
from webapp.core import ids
from webapp.runs.models import Run
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


class Follow(models.Model):
    """A user's choice to be notified about a run, or not. Without a row, only the run's author is notified."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="follows")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="follows")
    on = models.BooleanField(default=True)
    since = models.DateTimeField(default=timezone.now, help_text="Earlier events are not notified.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "run"], name="one_follow_per_run")]

    def __str__(self) -> str:
        return f"{self.user_id} {'follows' if self.on else 'ignores'} {self.run_id}"


class NotificationPreference(models.Model):
    """A user's choice of notifications. Without a row, everything is on."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="notification_preference")
    own_runs = models.BooleanField(default=True, help_text="Runs that the user started.")
    comments = models.BooleanField(default=True, help_text="Comments on own and followed runs, and in own threads.")
    team_alerts = models.BooleanField(default=True, help_text="Alert rules of teams with the inbox as their channel.")
    mention_mail = models.BooleanField(default=True, help_text="E-mails about mentions, which are always listed.")

    def __str__(self) -> str:
        return f"preferences of {self.user_id}"


class NotificationQuerySet(models.QuerySet["Notification"]):
    def of(self, user: User | AnonymousUser) -> NotificationQuerySet:
        """Return notifications of the user about runs that they may still see, newest first."""
        if not user.is_authenticated:
            return self.none()
        runs = Run.objects.listed_for(user)
        visible = models.Q(run=None) | models.Q(run__in=runs.values("pk"))
        return self.filter(visible, user_id=user.pk, comment__deleted_at=None).order_by("-created_at", "-pk")

    def unread(self) -> NotificationQuerySet:
        return self.filter(read_at__isnull=True)

    def mentions(self) -> NotificationQuerySet:
        return self.filter(kind=Notification.Kind.MENTION)


class Notification(models.Model):
    """One notification of one user. `key` makes it unique, however often its event is detected."""

    class Kind(models.TextChoices):
        FINISHED = "finished", "Run finished"
        FAILED = "failed", "Run failed"
        WATCH = "watch", "Echo Trap: watch"
        TRAPPED = "trapped", "Echo Trap: trapped"
        SICK = "sick", "Run is sick"
        SHARE = "share", "Watched view"
        SOLVED = "solved", "First success"
        COMMENT = "comment", "Comment"
        ALERT = "alert", "Alert"
        MENTION = "mention", "Mention"

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="notifications")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="+")
    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, null=True, related_name="+")
    key = models.CharField(max_length=200)
    title = models.CharField(max_length=200)
    message = models.TextField(blank=True)
    path = models.CharField(max_length=500, help_text="Path of the page it is about.")
    created_at = models.DateTimeField(default=timezone.now)
    read_at = models.DateTimeField(null=True, blank=True)

    objects = NotificationQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_notification_per_event")]
        indexes = [
            models.Index(fields=["user", "-created_at"], name="notification_newest"),
            models.Index(fields=["user"], name="notification_unread", condition=models.Q(read_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.user_id}"
