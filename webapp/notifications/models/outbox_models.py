"""The outbox: messages to recipients outside the site, and the attempts to send them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils import timezone

from webapp.core import ids
from webapp.core.database import Moment
from webapp.notifications.models.inbox_models import Notification
from webapp.notifications.models.rule_models import Rule
from webapp.runs.models import Run, readable_by
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def visible_to(self, user: User | AnonymousUser) -> DeliveryQuerySet:
        """Return deliveries about runs that the user may read, and deliveries about no run."""
        return self.filter(models.Q(run=None) | readable_by(user, "run__"))

    def due(self, now: Moment) -> DeliveryQuerySet:
        """Return pending deliveries whose next attempt is due. Switching a rule off fails its pending deliveries."""
        return self.filter(state=Delivery.State.PENDING, next_try_at__lte=now, rule__deleted_at=None)


class Delivery(models.Model):
    """A message that is sent once: an alert of a rule, the e-mail about a mention, or another e-mail of the site.

    `key` makes it unique, however often its reason is detected.
    """

    TEST = "test"
    MENTION = "mention"
    SWITCHED_OFF = "switched-off"

    class State(models.TextChoices):
        PENDING = "pending", "Waiting"
        DELIVERED = "delivered", "Delivered"
        FAILED = "failed", "Failed"
        HELD = "held", "Not sent"

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, null=True, related_name="deliveries")
    mention = models.ForeignKey(
        Notification, on_delete=models.CASCADE, null=True, related_name="+", help_text="The entry of the inbox."
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="alert_deliveries")
    event = models.CharField(max_length=12, help_text="A Rule.Event, TEST, MENTION or SWITCHED_OFF.")
    key = models.CharField(max_length=200)
    payload = models.TextField(blank=True, help_text="JSON: an alert as webhooks carry it, or the fields of a Letter.")
    state = models.CharField(max_length=9, choices=State.choices, default=State.PENDING)
    tries = models.PositiveIntegerField(default=0, help_text="Attempts since it was created or sent again.")
    next_try_at = models.DateTimeField(default=timezone.now)
    claim = models.CharField(max_length=24, blank=True, help_text="Token of the current attempt.")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["rule", "key"], name="one_delivery_per_event", nulls_distinct=False)
        ]
        indexes = [
            models.Index(fields=["next_try_at"], name="delivery_due", condition=models.Q(state="pending")),
            models.Index(fields=["rule", "-id"], name="delivery_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.key}"

    @property
    def facts(self) -> dict[str, Any]:
        """Return the decoded payload."""
        facts: dict[str, Any] = json.loads(self.payload)
        return facts

    @property
    def is_test(self) -> bool:
        """True if a user tests the rule: such a delivery is attempted only once."""
        return self.event == self.TEST


class DeliveryAttempt(models.Model):
    """One attempt to deliver, with its result."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="log")
    at = models.DateTimeField()
    milliseconds = models.PositiveIntegerField()
    status = models.PositiveIntegerField(null=True, help_text="HTTP status; empty without a response.")
    ok = models.BooleanField()
    answer = models.TextField(blank=True, help_text="Beginning of the response, or the reason why there was none.")

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{'delivered' if self.ok else 'failed'} at {self.at:%Y-%m-%d %H:%M:%S}"
