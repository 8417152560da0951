"""Alert rules, and the addresses that they may use."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.db import models
from django.utils import timezone

from webapp.core import ids
from webapp.core.soft_delete import NotDeleted, SoftDeleted
from webapp.notifications.signatures import new_secret
from webapp.teams.models import Membership, Team, User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


class RuleQuerySet(models.QuerySet["Rule"]):
    def visible_to(self, user: User | AnonymousUser) -> RuleQuerySet:
        """Return rules of the user's teams."""
        return self.filter(team__memberships__user_id=user.pk) if user.is_authenticated else self.none()

    def ownerless(self) -> RuleQuerySet:
        """Return rules whose authors have left the team, or were deactivated or deleted."""
        places = Membership.objects.filter(team=models.OuterRef("team"), user=models.OuterRef("author"))
        return self.filter(~models.Exists(places.filter(user__is_active=True)))


class Rule(SoftDeleted):
    """Events of runs that a team is alerted to, and the channel of the alerts."""

    class Event(models.TextChoices):
        WATCH = "watch", "Echo Trap: watch"
        TRAPPED = "trapped", "Echo Trap: trapped"
        SICK = "sick", "Run is sick"
        FAILED = "failed", "Run failed"
        FINISHED = "finished", "Run finished"
        REACHED = "reached", "Evaluation reached the threshold"
        FELL = "fell", "Evaluation fell below the threshold"
        SHARE = "share", "Watched view rose above its threshold"
        QUEUED = "queued", "Run waits in the queue"
        STALLED = "stalled", "Run makes no progress"

    TROUBLE = (Event.TRAPPED, Event.SICK)
    """Events for which a rule may pause a run."""

    class Scope(models.TextChoices):
        ALL = "all", "All runs of the team"
        ENVIRONMENT = "environment", "Runs in one environment"
        TAG = "tag", "Runs with one tag"
        OWN = "own", "My own runs"
        RUN = "run", "One run"

    class Channel(models.TextChoices):
        INBOX = "inbox", "Inbox of each member on this site"
        EMAIL = "email", "E-mail"
        WEBHOOK = "webhook", "Webhook (signed JSON)"
        SLACK = "slack", "Slack or compatible"

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="alert_rules")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="alert_rules")
    target_author = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="+", help_text="Who set the target last."
    )
    name = models.CharField(max_length=120)
    events = models.JSONField(default=list)
    scope = models.CharField(max_length=11, choices=Scope.choices, default=Scope.ALL)
    scope_value = models.CharField(max_length=100, blank=True, help_text="Environment, tag, or slug of the run.")
    suite = models.CharField(max_length=100, blank=True, help_text="Evaluation suite; empty = all.")
    threshold = models.FloatField(default=0.5, help_text="Success rate, 0 to 1.")
    queued_minutes = models.PositiveIntegerField(default=30)
    stalled_minutes = models.PositiveIntegerField(default=30)
    pauses = models.BooleanField(
        default=False, db_default=False, help_text="An event of TROUBLE also pauses its run, if it trains here."
    )
    channel = models.CharField(max_length=7, choices=Channel.choices, default=Channel.EMAIL)
    addresses = models.JSONField(default=list, help_text="E-mail addresses.")
    url = models.CharField(max_length=1000, blank=True)
    secret = models.CharField(max_length=100, default=new_secret)
    former_secrets = models.JSONField(
        default=list, help_text="Replaced secrets that still sign, the latest first: secret, and until when (ISO 8601)."
    )
    enabled = models.BooleanField(default=True)
    disabled_reason = models.TextField(blank=True, help_text="Reason why the rule was disabled automatically.")
    failures = models.PositiveIntegerField(default=0, help_text="Consecutive failed deliveries.")
    since = models.DateTimeField(default=timezone.now, help_text="Earlier events are not delivered.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = NotDeleted.from_queryset(RuleQuerySet)()

    class Meta:
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.name

    @property
    def event_labels(self) -> list[str]:
        """Return display names of the events."""
        return [label for value, label in self.Event.choices if value in self.events]

    @property
    def target_label(self) -> str:
        """Return the target without secrets, such as the path of a webhook."""
        if self.channel == self.Channel.INBOX:
            return "members of the team"
        if self.channel == self.Channel.EMAIL:
            return ", ".join(self.addresses)
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.split('/')[0]}/…"

    def signing_secrets(self, now: datetime) -> list[str]:
        """Return the secrets that sign at that time: the present one first, then those replaced within the last day."""
        former = [entry["secret"] for entry in self.former_secrets if datetime.fromisoformat(entry["until"]) > now]
        return [self.secret, *former]

    @property
    def former_secrets_until(self) -> datetime | None:
        """Return when the last replaced secret expires; None if only the present one signs."""
        ends = [datetime.fromisoformat(entry["until"]) for entry in self.former_secrets]
        return max((end for end in ends if end > timezone.now()), default=None)

    @property
    def reports_private_runs(self) -> bool:
        """True if its author's private runs may be reported, because the author set its target."""
        return self.author_id is not None and self.target_author_id == self.author_id


class AlertAddress(models.Model):
    """An e-mail address outside a team, to which its rules may send alerts once its owner has confirmed it."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="alert_addresses")
    email = models.EmailField(help_text="In lower case.")
    token = models.CharField(max_length=32, unique=True, default=ids.token, editable=False)
    sent_at = models.DateTimeField(null=True, help_text="When the link was sent last.")
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "email"], name="one_confirmation_per_address")]

    def __str__(self) -> str:
        return f"{self.email} for {self.team_id}"
