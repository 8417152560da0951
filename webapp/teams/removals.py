"""Removals by users: a mark takes effect at once, is recorded, and is cleared if they undo it in time.

The mark is `deleted_at` of rows that are purged later (webapp/core/soft_delete.py), else `revoked_at`.
"""

from __future__ import annotations

import logging
from typing import Any

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, models, transaction
from django.dispatch import Signal, receiver
from django.http import Http404
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from webapp.core.soft_delete import UNDO_TIME, SoftDeleted
from webapp.teams.access import role_in
from webapp.teams.audit import record
from webapp.teams.models import ApiToken, AuditAction, Invitation, Membership, Removal, Team, User

logger = logging.getLogger(__name__)

restored = Signal()
"""Sent by a model with the restored `rows` and the `user`, in the transaction; receivers raise UndoRefused."""


UNREADABLE = "Only people who may read the run can undo this."


class UndoRefused(ValueError):
    """The removal cannot be undone. The message gives the reason and an alternative."""


@transaction.atomic
def do_remove(
    *querysets: models.QuerySet[Any],
    team: Team | None,
    by: User | None,
    name: str,
    role: str = Membership.Role.ADMIN,
    former: Membership | None = None,
) -> Removal | None:
    """Mark the rows as removed and record it. Returns the removal; None if there was nothing to remove.

    Args:
        name: describes it for users, such as “the token “CI””.
        role: the role with which `by` may undo it, besides admins; empty: only `by` may, with any role or none.
        former: membership that was deleted with the rows.
    """
    now = timezone.now()
    rows: dict[str, list[int]] = {}
    times = [UNDO_TIME]
    for queryset in querysets:
        model = queryset.model
        if pks := list(queryset.select_for_update(of=("self",)).values_list("pk", flat=True)):
            model._base_manager.filter(pk__in=pks).update(**{_mark(model): now})
            rows[model._meta.label] = pks
            times.append(getattr(model, "UNDO_TIME", UNDO_TIME))
    if not rows and former is None:
        return None
    removal = Removal.objects.create(
        team=team,
        author=by,
        name=name[: Removal._meta.get_field("name").max_length],
        role=role,
        rows=rows,
        member=former and {"user": former.user_id, "role": former.role, "since": former.created_at.isoformat()},
        created_at=now,
        until=now + max(times),
    )
    record(AuditAction.REMOVED, removal.name, team=team)
    logger.info("Removed %s by user %s: %s", removal.slug, by and by.pk, ", ".join(rows) or "a member")
    return removal


def get_removal(user: User, slug: str) -> Removal:
    """Return the removal if the user may undo it. Raises Http404 outside its team, PermissionDenied inside."""
    removal = Removal.objects.select_related("team").filter(slug=slug).first()
    role = None if removal is None or removal.team_id is None else role_in(user, removal.team_id)
    if removal is not None and _may_undo(user, role, removal):
        return removal
    if role is None:
        raise Http404("There is nothing to undo here, or it belongs to a team you are not in.")
    raise PermissionDenied("Only the person who removed this, or an admin of the team, can undo it.")


@transaction.atomic
def do_undo(removal: Removal, user: User) -> Removal:
    """Restore removed rows. Callers check get_removal. Raises UndoRefused, or PermissionDenied by a receiver."""
    locked = Removal.objects.select_for_update().get(pk=removal.pk)
    if locked.undone_at is not None:
        raise UndoRefused("This was undone already. Nothing was changed.")
    if not locked.is_undoable:
        raise UndoRefused(f"It is too late: this could be undone for {locked.undo_time_text}. Create it again.")
    if locked.member is not None:
        _restore_member(locked, user)
    for label, pks in locked.rows.items():
        _restore(apps.get_model(label), pks, user)
    locked.undone_at, locked.undone_by = timezone.now(), user
    locked.save(update_fields=["undone_at", "undone_by"])
    record(AuditAction.RESTORED, locked.name, team=locked.team)
    logger.info("Undone removal %s by user %s.", locked.slug, user.pk)
    return locked


def newest_removals(user: User, team: Team, count: int, *, admin: bool) -> list[Removal]:
    """Return the team's newest removals, each with `offered`: all for admins, else only the user's. One query."""
    removals = Removal.objects.filter(team=team).select_related("author", "undone_by")
    listed = list((removals if admin else removals.filter(author=user))[:count])
    role = Membership.Role.ADMIN if admin else None
    for removal in listed:  # get_removal decides when the button is pressed
        by_user = removal.author_id == user.pk
        removal.offered = removal.is_undoable and (by_user or _may_undo(user, role, removal))
    return listed


def _mark(model: type[models.Model]) -> str:
    return "deleted_at" if issubclass(model, SoftDeleted) else "revoked_at"


def _may_undo(user: User, role: Membership.Role | None, removal: Removal) -> bool:
    by_user, roles = removal.author_id == user.pk, list(Membership.Role)
    if not removal.role:
        return by_user
    enough = role is not None and roles.index(role) >= roles.index(Membership.Role(removal.role))
    return role == Membership.Role.ADMIN or (by_user and enough)


def _restore(model: type[models.Model], pks: list[int], user: User) -> None:
    rows = model._base_manager.filter(pk__in=pks)
    try:
        with transaction.atomic():
            if not rows.update(**{_mark(model): None}):
                raise UndoRefused("It no longer exists, or what it belonged to was deleted. Nothing was changed.")
    except IntegrityError as error:
        raise UndoRefused("Something with the same name was created meanwhile. Nothing was changed.") from error
    restored.send(model, rows=list(rows), user=user)


def _restore_member(removal: Removal, by: User) -> None:
    facts = removal.member or {}
    assert removal.team_id is not None
    team = Team.objects.select_for_update().get(pk=removal.team_id)
    user = User.objects.filter(pk=facts["user"]).first()
    if user is None:
        raise UndoRefused("This account no longer exists.")
    if team.memberships.filter(user=user).exists():
        raise UndoRefused(f"{user.username} is in the team again already. Nothing was changed.")
    if Removal.objects.filter(team=team, member__user=user.pk, pk__gt=removal.pk).exists():
        raise UndoRefused(f"{user.username} was removed once more after that. Undo that one instead.")
    membership = Membership.objects.create(team=team, user=user, role=facts["role"])
    Membership.objects.filter(pk=membership.pk).update(created_at=parse_datetime(facts["since"]))
    restored.send(Membership, rows=[membership], user=by)


@receiver(restored, sender=ApiToken)
def _require_owners(rows: list[ApiToken], **kwargs: Any) -> None:
    for token in rows:
        if not Membership.objects.filter(team=token.team_id, user=token.user_id).exists():
            raise UndoRefused("The owner of this token is no longer in the team.")


@receiver(restored, sender=Invitation)
def _require_admins(rows: list[Invitation], **kwargs: Any) -> None:
    for invitation in rows:
        if invitation.author is None or role_in(invitation.author, invitation.team_id) != Membership.Role.ADMIN:
            raise UndoRefused("The author of this invitation is no longer an admin of the team. Create a new one.")
