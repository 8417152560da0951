"""Changes of users, teams, memberships, invitations and API tokens. Callers check permissions (access.py)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from webapp.core.names import one_line
from webapp.teams import api_tokens
from webapp.teams.audit import record
from webapp.teams.models import ApiToken, AuditAction, Invitation, Membership, Removal, Team, User
from webapp.teams.removals import do_remove

INVITATION_LIFETIME = timedelta(days=7)


class TeamRefused(ValueError):
    """The change would leave a team without an admin, or came too late. The message is for the user."""


def do_create_user(username: str, password: str | None = None, email: str = "") -> User:
    """Create a user, who cannot log in without a password until one is set."""
    return User.objects.create_user(username=username, email=email, password=password)


@transaction.atomic
def do_create_team(name: str, owner: User) -> Team:
    """Create a team with `owner` as its admin."""
    team = Team.objects.create(name=one_line(name) or f"{owner.username}'s team", creator=owner)
    Membership.objects.create(team=team, user=owner, role=Membership.Role.ADMIN)
    record(AuditAction.TEAM_CREATED, team.name, team=team)
    return team


@transaction.atomic
def do_set_role(team: Team, user: User, role: Membership.Role) -> Membership:
    """Add the user to the team, or change a member's role. Raises TeamRefused for the last admin.

    Revokes the open invitations of a user who stops being an admin.
    """
    previous = _lock(team).memberships.filter(user=user).first()
    if previous is not None and previous.role == Membership.Role.ADMIN and role != Membership.Role.ADMIN:
        _require_another_admin(team, user)
        _revoke_invitations(team, user)
    membership, _ = Membership.objects.update_or_create(team=team, user=user, defaults={"role": role})
    former = previous and previous.role
    record(AuditAction.ROLE_CHANGED, user.username, team=team, was=former, role=str(role))
    return membership


@transaction.atomic
def do_remove_member(team: Team, user: User, by: User | None = None) -> Removal | None:
    """Remove the user from the team and revoke their tokens and invitations for it. The team keeps their runs.

    Returns the removal that can be undone; None if the user is not in the team. Raises TeamRefused for the last admin.
    """
    membership = _lock(team).memberships.filter(user=user).first()
    if membership is None:
        return None
    if membership.role == Membership.Role.ADMIN:
        _require_another_admin(team, user)
    membership.delete()
    return do_remove(
        Invitation.objects.open(timezone.now()).filter(team=team, author=user),
        ApiToken.objects.filter(team=team, user=user, revoked_at__isnull=True),
        team=team,
        by=by,
        name=f"{user.username} as {membership.get_role_display().lower()}",
        role="" if by == user else Membership.Role.ADMIN,  # users who left can return by themselves
        former=membership,
    )


def _lock(team: Team) -> Team:
    """Lock the team to serialise changes of its members, so that two admins cannot remove each other."""
    return Team.objects.select_for_update().get(pk=team.pk)


def _require_another_admin(team: Team, user: User) -> None:
    if not team.memberships.filter(role=Membership.Role.ADMIN).exclude(user=user).exists():
        raise TeamRefused(f"{user.username} is the last admin of {team.name}. Make another member an admin first.")


def _revoke_invitations(team: Team, author: User) -> None:
    Invitation.objects.open(timezone.now()).filter(team=team, author=author).update(revoked_at=timezone.now())


@transaction.atomic
def do_change_team(team: Team, name: str, retention_days: int | None) -> None:
    """Set the team's name and the days after which training trajectories are thinned (None: never)."""
    Team.objects.filter(pk=team.pk).update(name=one_line(name) or team.name, retention_days=retention_days)
    team.refresh_from_db()
    record(AuditAction.TEAM_CHANGED, team.name, team=team, retention_days=retention_days)


@transaction.atomic
def do_rename_user(user: User, username: str) -> None:
    """Change the name for login and mentions. Raises IntegrityError if it is taken."""
    former = user.username
    User.objects.filter(pk=user.pk).update(username=username)
    user.refresh_from_db()
    record(AuditAction.ACCOUNT_CHANGED, "the name", was=former, name=username)


@transaction.atomic
def do_invite(team: Team, author: User, role: Membership.Role, email: str = "") -> Invitation:
    """Create a link with which one person can join within a week. The caller sends it."""
    record(AuditAction.INVITED, email or "by a link", team=team, role=str(role))
    return Invitation.objects.create(
        team=team, author=author, role=role, email=email, expires_at=timezone.now() + INVITATION_LIFETIME
    )


def do_revoke_invitation(invitation: Invitation, by: User | None = None) -> Removal | None:
    """Revoke an open invitation. Returns the removal that can be undone; None if it was not open."""
    rows = Invitation.objects.open(timezone.now()).filter(pk=invitation.pk)
    name = f"the invitation as {invitation.get_role_display().lower()}"
    name += f" for {invitation.email}" if invitation.email else ""
    removal = do_remove(rows, team=invitation.team, by=by, name=name)
    invitation.refresh_from_db()
    return removal


@transaction.atomic
def do_accept_invitation(invitation: Invitation, user: User) -> Membership:
    """Add the user to the team with the invitation's role and close the invitation. Raises TeamRefused if not open.

    A user who is already in the team keeps their role, and the invitation stays open.
    """
    member = Membership.objects.filter(team_id=invitation.team_id, user=user).first()
    if member is not None:
        return member
    now = timezone.now()
    if not Invitation.objects.open(now).filter(pk=invitation.pk).update(accepted_at=now, accepted_by=user):
        raise TeamRefused("This invitation has already been used or revoked, or it is older than a week.")
    record(AuditAction.JOINED, user.username, team=invitation.team, user=user, role=invitation.role)
    return Membership.objects.create(team_id=invitation.team_id, user=user, role=invitation.role)


@transaction.atomic
def do_create_token(
    team: Team, user: User, name: str, scopes: Iterable[str], expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Create an API token. Returns it with its secret, which is not stored and cannot be shown again."""
    chosen = [scope for scope in ApiToken.SCOPES if scope in set(scopes)]
    if not chosen:
        raise ValueError(f"A token needs at least one scope of {', '.join(ApiToken.SCOPES)}.")
    secret = api_tokens.new_secret()
    token = ApiToken.objects.create(
        team=team,
        user=user,
        name=one_line(name) or "Token",
        prefix=secret[: api_tokens.PREFIX_LENGTH],
        digest=api_tokens.digest(secret),
        scopes=chosen,
        expires_at=expires_at,
    )
    record(
        AuditAction.TOKEN_CREATED, str(token), team=team, scopes=chosen, expires=expires_at and f"{expires_at:%Y-%m-%d}"
    )
    return token, secret


def do_revoke_token(token: ApiToken, by: User | None = None) -> Removal | None:
    """Revoke the token at once; idempotent. Returns the removal that can be undone; None if it was revoked before."""
    rows = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
    by_owner = by is not None and by.pk == token.user_id
    role = "" if by_owner else Membership.Role.ADMIN  # only the owner may restore a secret that they gave up
    removal = do_remove(rows, team=token.team, by=by, name=f"the token “{token.name}”", role=role)
    token.refresh_from_db()
    return removal
