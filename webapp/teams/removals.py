"""What people remove or revoke: it takes effect at once, is recorded, and can be undone for UNDO_TIME.

Each room registers how its kind of thing is restored. The record stays as an audit trail; what undoing needs (the rows
of a deleted comment, say) is erased when the time is over.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin.utils import NestedObjects
from django.core import serializers
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.db import IntegrityError, connection, models, router, transaction
from django.http import Http404
from django.utils import timezone

from webapp.core import formatting
from webapp.teams.access import may_admin, role_in
from webapp.teams.models import Removal, Team, User

logger = logging.getLogger(__name__)

UNDO_TIME = timedelta(minutes=10)
"""How long a removal can be undone."""
UNDO_MINUTES = UNDO_TIME // timedelta(minutes=1)
MISSING = "There is nothing to undo here, or it belongs to a team you are not in."
NOT_ENTITLED = "Only the person who removed this, or an admin of the team, can undo it."


class UndoRefused(ValueError):
    """The removal cannot be undone. The message says why, and what to do instead."""


@dataclass(frozen=True)
class Undo:
    """How removals of one kind are undone.

    Attributes:
        restore: puts things back as they were. Raises UndoRefused.
        may: whether the user may undo it now, checked besides the membership of its team.
        remedy: what to do once it is too late, as a sentence.
    """

    restore: Callable[[Removal], None]
    may: Callable[[User, Removal], bool]
    remedy: str


class _ExactEncoder(DjangoJSONEncoder):
    """Keeps the microseconds of times, which Django's encoder cuts off."""

    def default(self, o: Any) -> Any:
        return o.isoformat() if isinstance(o, datetime) else super().default(o)


_undos: dict[str, Undo] = {}


def register(kind: Removal.Kind, undo: Undo) -> None:
    """Register how removals of that kind are undone. Call it when the app is ready."""
    _undos[kind] = undo


def by_remover_or_admin(user: User, removal: Removal) -> bool:
    """Whether the user removed it, or is an admin of its team."""
    return removal.author_id == user.pk or (removal.team_id is not None and may_admin(user, removal.team_id))


def record(
    kind: Removal.Kind,
    team: Team | None,
    author: User | None,
    name: str,
    data: dict[str, Any],
    *,
    subject: str = "",
    now: datetime | None = None,
) -> Removal:
    """Record a removal, in the transaction that makes it. `name` describes it in words, such as “the token “CI””."""
    longest = Removal._meta.get_field("name").max_length or 0
    removal = Removal.objects.create(
        kind=kind,
        team=team,
        author=author,
        name=name[:longest],
        subject=subject,
        data=data,
        created_at=now or timezone.now(),
    )
    logger.info("Removed %s %s by user %s.", kind, removal.slug, "-" if author is None else author.pk)
    return removal


def rows_of(instance: models.Model) -> list[dict[str, Any]]:
    """The row and all rows that a deletion takes along, for do_put_back."""
    collector = NestedObjects(using=router.db_for_write(type(instance)))
    collector.collect([instance])
    instances = [row for rows in collector.data.values() for row in rows]
    rows: list[dict[str, Any]] = json.loads(serializers.serialize("json", instances, cls=_ExactEncoder))
    return rows


def do_put_back(rows: list[dict[str, Any]]) -> None:
    """Insert deleted rows again, with their keys. Raises UndoRefused if they no longer fit."""
    try:
        with transaction.atomic():
            for row in serializers.deserialize("json", json.dumps(rows), ignorenonexistent=True):
                if type(row.object)._base_manager.filter(pk=row.object.pk).exists():
                    raise UndoRefused("It exists already. Nothing was changed.")
                row.save()
            connection.check_constraints()
    except IntegrityError as error:
        raise UndoRefused(
            "Something with the same name was created meanwhile, or what it belonged to was deleted. Nothing was "
            "changed."
        ) from error


def is_undoable(removal: Removal, now: datetime | None = None) -> bool:
    """Whether there still is time to undo it."""
    return removal.undone_at is None and removal.created_at > (now or timezone.now()) - UNDO_TIME


def get_removal(user: User, slug: str) -> Removal:
    """The removal, for a person who may undo it. Raises Http404 for others outside its team, else PermissionDenied."""
    removal = Removal.objects.select_related("team").filter(slug=slug).first()
    if removal is None:
        raise Http404(MISSING)
    if _undos[removal.kind].may(user, removal):
        return removal
    if removal.team_id is None or role_in(user, removal.team_id) is None:
        raise Http404(MISSING)
    raise PermissionDenied(NOT_ENTITLED)


@transaction.atomic
def do_undo(removal: Removal, user: User) -> Removal:
    """Put back what was removed. Callers check get_removal. Raises UndoRefused, above all when it is too late."""
    locked = Removal.objects.select_for_update().get(pk=removal.pk)
    now = timezone.now()
    if locked.undone_at is not None:
        raise UndoRefused("This was undone already. Nothing was changed.")
    if not is_undoable(locked, now) or locked.data is None:
        minutes = formatting.plural(UNDO_MINUTES, "minute")
        raise UndoRefused(f"It is too late: this could be undone for {minutes}. {_undos[locked.kind].remedy}")
    _undos[locked.kind].restore(locked)
    locked.undone_at, locked.undone_by, locked.data = now, user, None
    locked.save(update_fields=["undone_at", "undone_by", "data"])
    logger.info("Undone removal %s %s by user %s.", locked.kind, locked.slug, user.pk)
    return locked


def newest_removals(user: User, team: Team, count: int, *, admin: bool) -> list[Removal]:
    """The team's newest removals, each with `undoable`: all of them for admins, else those of the user. One query."""
    removals = Removal.objects.filter(team=team).select_related("author", "undone_by")
    if not admin:
        removals = removals.filter(author=user)
    listed = list(removals[:count])
    now = timezone.now()
    for removal in listed:
        by_themselves = removal.author_id is not None and removal.subject == str(removal.author_id)
        theirs = by_themselves or removal.kind == Removal.Kind.VIEW
        offered = removal.author_id == user.pk or (admin and not theirs)  # get_removal decides when it is pressed
        removal.undoable = offered and is_undoable(removal, now)  # type: ignore[attr-defined]
    return listed


def do_finish_removals(now: datetime) -> int:
    """Erase what undoing needed where the time is over. Returns the number of removals that became final."""
    return Removal.objects.filter(created_at__lte=now - UNDO_TIME, data__isnull=False).update(data=None)
