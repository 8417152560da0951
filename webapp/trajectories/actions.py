"""Every change that people make to trajectories: sharing and revoking. What is played is written by the ingest."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.teams.models import User
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
    """A link that shows the trajectory to anybody. The author's open link to the same with the same end is given again.

    `turn` and `action` count from 0 and say where the player opens; `action` None or −1 is the turn's start.
    """
    Trajectory.objects.select_for_update().only("pk").get(pk=trajectory.pk)
    wanted = {
        "trajectory": trajectory,
        "author": author,
        "expires_at": expires_at,
        "turn": turn,
        "action": None if turn is None or action is None or action < 0 else action,
        "indexable": indexable,
    }
    return ShareLink.objects.open(timezone.now()).filter(**wanted).first() or ShareLink.objects.create(**wanted)


def do_revoke_share(share: ShareLink) -> None:
    """Close the link for good. Closing it again changes nothing."""
    ShareLink.objects.filter(pk=share.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())
    share.refresh_from_db()


def do_count_view(share: ShareLink, now: datetime) -> None:
    """One more person looked. Two at once are two."""
    ShareLink.objects.filter(pk=share.pk).update(views=F("views") + 1, last_viewed_at=now)
