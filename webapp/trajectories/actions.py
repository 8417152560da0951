"""Actions on trajectories: sharing, revoking, counting views."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F
from django.dispatch import receiver
from django.urls import reverse
from django.utils import timezone

from webapp.runs.models import Run
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Membership, Removal, User
from webapp.teams.removals import UNREADABLE, do_remove, restored
from webapp.trajectories.models import ShareLink, Trajectory


@transaction.atomic
def do_share_trajectory(
    trajectory: Trajectory,
    author: User,
    expires_at: datetime | None = None,
    *,
    turn: int | None = None,
    action: int | None = None,
    indexable: bool = False,
) -> ShareLink:
    """Create a share link, or return the author's active link with the same position and expiry.

    The player opens at `turn` and `action` (0-based); `action` None or −1 is the turn's start.
    """
    Trajectory.with_branches.select_for_update().only("pk").get(pk=trajectory.pk)
    fields = {
        "trajectory": trajectory,
        "author": author,
        "expires_at": expires_at,
        "turn": turn,
        "action": None if turn is None or action is None or action < 0 else action,
        "indexable": indexable,
    }
    if earlier := ShareLink.objects.open(timezone.now()).filter(**fields).first():
        return earlier
    run, path = trajectory.run, reverse("trajectory", args=[trajectory.slug])
    record(AuditAction.SHARED, f"trajectory {trajectory.key} of “{run.title}”", team=run.team, path=path)
    return ShareLink.objects.create(**fields)


def do_revoke_share(share: ShareLink, by: User | None = None) -> Removal | None:
    """Revoke the link at once. Returns the removal that can be undone; None if it was revoked before."""
    run, links = share.trajectory.run, ShareLink.objects.filter(pk=share.pk, revoked_at__isnull=True)
    name = f"the share link of “{run.title}”"
    removal = do_remove(links, team=run.team, by=by, name=name, role=Membership.Role.MEMBER)
    share.refresh_from_db()
    return removal


def do_revoke_shares_of_run(run: Run, by: User | None = None) -> tuple[int, Removal | None]:
    """Revoke all open links to the run's trajectories at once. Returns their number, and the removal to undo."""
    links = ShareLink.objects.open(timezone.now()).filter(trajectory__run=run)
    name = f"all share links of “{run.title}”"
    removal = do_remove(links, team=run.team, by=by, name=name, role=Membership.Role.MEMBER)
    return (0 if removal is None else sum(map(len, removal.rows.values()))), removal


@receiver(restored, sender=ShareLink)
def _require_readable_runs(rows: list[ShareLink], user: User, **kwargs: Any) -> None:
    if Trajectory.with_branches.filter(shares__in=rows).exclude(run__in=Run.objects.visible_to(user)).exists():
        raise PermissionDenied(UNREADABLE)


def do_count_view(share: ShareLink, now: datetime) -> None:
    """Count a view. Concurrent views are both counted."""
    ShareLink.objects.filter(pk=share.pk).update(views=F("views") + 1, last_viewed_at=now)
