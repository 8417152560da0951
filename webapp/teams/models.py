"""Users, teams, memberships, invitations, API tokens, removals, and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from webapp.core import formatting, ids

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


class User(AbstractUser):
    """A person with a login."""


class TeamQuerySet(models.QuerySet["Team"]):
    def visible_to(self, user: User | AnonymousUser) -> TeamQuerySet:
        """Return the user's teams."""
        return self.filter(memberships__user_id=user.pk) if user.is_authenticated else self.none()

    def writable_by(self, user: User | AnonymousUser) -> TeamQuerySet:
        """Return teams in which the user may launch, steer and share."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(memberships__user_id=user.pk, memberships__role__in=Membership.WRITERS)


class Team(models.Model):
    """A team; runs, alert rules and API tokens belong to one."""

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    name = models.CharField(max_length=120)
    retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Days after a run's end when its training trajectories are thinned; empty = never.",
    )
    creator = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="teams_created", editable=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TeamQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A user's membership of a team. Viewers read, members launch and share, admins also manage the team."""

    class Role(models.TextChoices):
        VIEWER = "viewer", "Viewer"
        MEMBER = "member", "Member"
        ADMIN = "admin", "Admin"

    WRITERS = (Role.MEMBER, Role.ADMIN)

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="one_membership_per_team")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team} as {self.get_role_display()}"


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self, now: datetime) -> InvitationQuerySet:
        """Return invitations that are neither accepted, revoked nor expired."""
        return self.filter(accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now)


class Invitation(models.Model):
    """A link with which one person joins a team, once. Sign-up requires one."""

    token = models.CharField(max_length=32, unique=True, default=ids.token, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="invitations_made")
    email = models.EmailField(blank=True, help_text="Address it was sent to; empty if the link was passed on by hand.")
    role = models.CharField(max_length=10, choices=Membership.Role.choices, default=Membership.Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="invitations_accepted"
    )
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = InvitationQuerySet.as_manager()

    def __str__(self) -> str:
        return f"invitation to {self.team} as {self.get_role_display()}"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def open(self, now: datetime) -> ApiTokenQuerySet:
        """Return tokens that are neither revoked nor expired."""
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True)

    def usable(self, now: datetime) -> ApiTokenQuerySet:
        """Return open tokens of active users who are still in the team."""
        return self.open(now).filter(user__is_active=True, team__memberships__user_id=F("user_id"))


class ApiToken(models.Model):
    """A secret for programs: in one team, it permits what both its scopes and its owner's role allow."""

    READ, WRITE = "read", "write"
    SCOPES = (READ, WRITE)

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="api_tokens")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, db_index=True, help_text="First characters of the secret.")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the secret, which is not stored.")
    scopes = models.JSONField(default=list, help_text='"read", "write" or both.')
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="Accurate to the minute.")
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class DailyUse(models.Model):
    """Number of times that a person or a team did something that is limited per day."""

    kind = models.CharField(max_length=20)
    subject = models.BigIntegerField(help_text="Primary key of the person or team, by kind.")
    day = models.DateField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject", "day"], name="one_count_per_day")]
        indexes = [models.Index(fields=["day"], name="dailyuse_day")]

    def __str__(self) -> str:
        return f"{self.kind} by {self.subject} on {self.day}: {self.count}"


class Removal(models.Model):
    """Something that a person removed or revoked, and the data to undo it for a while."""

    offered = False
    """True if a list offers the reader to undo it (removals.newest_removals)."""

    slug = models.CharField(max_length=24, unique=True, default=ids.slug, editable=False)
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, related_name="removals", help_text="Null for a private saved view."
    )
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="removals", help_text="Who removed it; null: the site."
    )
    name = models.CharField(max_length=300, help_text="Describes what was removed.")
    role = models.CharField(
        max_length=10,
        choices=Membership.Role.choices,
        blank=True,
        help_text="Role with which the author may undo it, besides admins; empty: only the author may.",
    )
    rows = models.JSONField(default=dict, help_text="Primary keys of the marked rows by model.")
    member = models.JSONField(null=True, help_text="The removed member: user, role, since.")
    created_at = models.DateTimeField()
    until = models.DateTimeField(default=timezone.now, help_text="Until when it can be undone.")
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["-created_at", "-pk"]
        indexes = [models.Index(fields=["team", "-created_at"], name="removal_newest")]

    def __str__(self) -> str:
        return f"{self.name}, removed {self.created_at:%Y-%m-%d %H:%M}"

    @property
    def is_undoable(self) -> bool:
        """True if there is still time to undo it."""
        return self.undone_at is None and self.until > timezone.now()

    @property
    def undo_time_text(self) -> str:
        """Time after the removal in which it can be undone, such as “10 minutes”."""
        time = self.until - self.created_at
        return formatting.plural(time.days, "day") if time.days else formatting.plural(time.seconds // 60, "minute")


class AuditAction(models.TextChoices):
    """Kinds of entries in the audit log; docs/teams.md lists what each includes."""

    LOGGED_IN = "login", "Logged in"
    LOGIN_FAILED = "login-failed", "Failed to log in"
    LOGGED_OUT = "logout", "Logged out"
    SESSIONS_ENDED = "sessions-ended", "Ended sessions"
    ACCOUNT_CHANGED = "account-changed", "Changed the account"
    TEAM_CREATED = "team-created", "Created the team"
    TEAM_CHANGED = "team-changed", "Changed the team's settings"
    ROLE_CHANGED = "role-changed", "Changed a role"
    INVITED = "invited", "Invited"
    JOINED = "joined", "Joined"
    TOKEN_CREATED = "token-created", "Created an API token"
    REMOVED = "removed", "Removed or revoked"
    RESTORED = "restored", "Undid a removal"
    LAUNCHED = "launched", "Launched"
    IMPORTED = "imported", "Imported a run"
    CONTROLLED = "controlled", "Steered"
    RUN_CHANGED = "run-changed", "Changed a run"
    RUN_DELETED = "run-deleted", "Deleted a run"
    STUDY_CHANGED = "study-changed", "Changed a study"
    SHARED = "shared", "Shared an attempt"
    REPORT_CHANGED = "report-changed", "Wrote a report"
    ALERT_CHANGED = "alert-changed", "Changed an alert rule"
    VIEW_CHANGED = "view-changed", "Changed a watched view"
    MODEL_CHANGED = "model-changed", "Changed the models"
    EXPORTED = "exported", "Downloaded"
    ADMINISTERED = "administered", "Changed under Administration"


class AuditEntry(models.Model):
    """One entry of the audit log (audit.py): never changed, and deleted only by age."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    action = models.CharField(max_length=20, choices=AuditAction.choices)
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    username = models.CharField(
        max_length=150, blank=True, help_text="Name at that time; empty: the site itself, or a visitor."
    )
    team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, related_name="+")
    subject = models.CharField(max_length=300, blank=True)
    path = models.CharField(max_length=200, blank=True)
    address = models.GenericIPAddressField(null=True)
    means = models.CharField(max_length=150, blank=True, help_text="Browser or API token.")
    details = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["team", "-id"], name="audit_newest")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.person}: {self.get_action_display()} {self.subject}"

    @property
    def person(self) -> str:
        """Name of the person, the site or a visitor."""
        return self.username or ("a visitor" if self.address else "the site")

    @property
    def details_text(self) -> str:
        """The details with a value, such as “was: member, role: admin”."""
        shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in self.details.items()}
        return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in shown.items() if value is not None)
