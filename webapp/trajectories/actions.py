"""Actions on trajectories: sharing, revoking, counting views."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from webapp.runs.models import Run
from webapp.teams import removals
from webapp.teams.access import may_write
from webapp.teams.models import Removal, User
from webapp.teams.removals import UndoRefused, by_remover_or_admin
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
    Trajectory.objects.select_for_update().only("pk").get(pk=trajectory.pk)
    fields = {
        "trajectory": trajectory,
        "author": author,
        "expires_at": expires_at,
        "turn": turn,
        "action": None if turn is None or action is None or action < 0 else action,
        "indexable": indexable,
    }
    return ShareLink.objects.open(timezone.now()).filter(**fields).first() or ShareLink.objects.create(**fields)


def do_revoke_share(share: ShareLink, by: User | None = None) -> Removal | None:
    """Revoke the link at once. Returns what undoes it; None if it was revoked before."""
    removal = _revoke(ShareLink.objects.filter(pk=share.pk, revoked_at__isnull=True), share.trajectory.run, by)
    share.refresh_from_db()
    return removal


def do_revoke_shares_of_run(run: Run, by: User | None = None) -> tuple[int, Removal | None]:
    """Revoke all open links to the run's trajectories at once. Returns their number, and what undoes it."""
    removal = _revoke(ShareLink.objects.open(timezone.now()).filter(trajectory__run=run), run, by)
    return (0 if removal is None else len((removal.data or {})["pks"])), removal


@transaction.atomic
def _revoke(links: QuerySet[ShareLink], run: Run, by: User | None) -> Removal | None:
    now = timezone.now()
    pks = list(links.select_for_update(of=("self",)).values_list("pk", flat=True))
    if not pks:
        return None
    ShareLink.objects.filter(pk__in=pks).update(revoked_at=now)
    name = f"{'the share link' if len(pks) == 1 else f'{len(pks)} share links'} of “{run.title}”"
    return removals.record(Removal.Kind.SHARE, run.team, by, name, {"pks": pks, "run": run.pk}, now=now)


def restore_shares(removal: Removal) -> None:
    """Put revoked links back. Raises UndoRefused."""
    if not ShareLink.objects.filter(pk__in=(removal.data or {})["pks"]).update(revoked_at=None):
        raise UndoRefused("The attempts that these links show no longer exist.")


def may_restore_shares(user: User, removal: Removal) -> bool:
    """Whether the user revoked them or is an admin, and may still share attempts of that run."""
    if removal.team_id is None or not may_write(user, removal.team_id):
        return False
    run = (removal.data or {}).get("run")
    readable = run is None or Run.objects.visible_to(user).filter(pk=run).exists()
    return readable and by_remover_or_admin(user, removal)


def do_count_view(share: ShareLink, now: datetime) -> None:
    """Count a view. Concurrent views are both counted."""
    ShareLink.objects.filter(pk=share.pk).update(views=F("views") + 1, last_viewed_at=now)
