"""How removed members and revoked tokens and invitations come back (removals.py)."""

from __future__ import annotations

from django.dispatch import Signal
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from webapp.teams import removals
from webapp.teams.access import may_admin, role_in
from webapp.teams.models import ApiToken, Invitation, Membership, Removal, Team, User
from webapp.teams.removals import Undo, UndoRefused

member_restored = Signal()
"""Sent with `team` and `user` in the transaction in which a removed member comes back."""


def _restore_token(removal: Removal) -> None:
    pks = (removal.data or {})["pks"]
    if not ApiToken.objects.filter(pk__in=pks, revoked_at__isnull=False).update(revoked_at=None):
        raise UndoRefused("This token no longer exists. Create a new one.")


def _may_restore_token(user: User, removal: Removal) -> bool:
    """Who revoked their own token undoes it alone: no one else revives a secret that its owner gave up.

    A token that an admin revoked is restored by admins only.
    """
    if removal.team_id is None or role_in(user, removal.team_id) is None:
        return False
    own = removal.author_id is not None and removal.subject == str(removal.author_id)
    return removal.author_id == user.pk if own else may_admin(user, removal.team_id)


def _restore_invitation(removal: Removal) -> None:
    invitation = Invitation.objects.select_for_update().filter(pk__in=(removal.data or {})["pks"]).first()
    if invitation is None or invitation.expires_at <= timezone.now():
        raise UndoRefused("This invitation has expired meanwhile. Create a new one.")
    by_admin = Membership.objects.filter(team=invitation.team, user=invitation.author, role=Membership.Role.ADMIN)
    if not by_admin.exists():
        raise UndoRefused("The author of this invitation is no longer an admin of the team. Create a new one.")
    Invitation.objects.filter(pk=invitation.pk).update(revoked_at=None)


def _may_restore_invitation(user: User, removal: Removal) -> bool:
    return removal.team_id is not None and may_admin(user, removal.team_id)


def _restore_member(removal: Removal) -> None:
    data = removal.data or {}
    assert removal.team_id is not None
    team = Team.objects.select_for_update().get(pk=removal.team_id)
    user = User.objects.filter(pk=data["user"]).first()
    if user is None:
        raise UndoRefused("This account no longer exists.")
    if team.memberships.filter(user=user).exists():
        raise UndoRefused(f"{user.username} is in the team again already. Nothing was changed.")
    newer = Removal.objects.filter(kind=removal.kind, team=team, subject=removal.subject, pk__gt=removal.pk)
    if newer.exists():
        raise UndoRefused(f"{user.username} was removed once more after that. Undo that one instead.")
    membership = Membership.objects.create(team=team, user=user, role=data["role"])
    Membership.objects.filter(pk=membership.pk).update(created_at=parse_datetime(data["since"]))
    Invitation.objects.filter(pk__in=data["invitations"]).update(revoked_at=None)
    ApiToken.objects.filter(pk__in=data["tokens"]).update(revoked_at=None)
    member_restored.send(Removal, team=team, user=user)


def _may_restore_member(user: User, removal: Removal) -> bool:
    """Who left comes back by themselves; who was removed comes back by an admin."""
    left = removal.author_id is not None and removal.subject == str(removal.author_id)
    if left:
        return removal.author_id == user.pk
    return removal.team_id is not None and may_admin(user, removal.team_id)


def register_undos() -> None:
    """Register the kinds of this room."""
    removals.register(Removal.Kind.TOKEN, Undo(_restore_token, _may_restore_token, "Create a new token."))
    removals.register(
        Removal.Kind.INVITATION, Undo(_restore_invitation, _may_restore_invitation, "Create a new invitation.")
    )
    removals.register(
        Removal.Kind.MEMBER, Undo(_restore_member, _may_restore_member, "An admin of the team can invite them again.")
    )
