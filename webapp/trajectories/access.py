"""Access to trajectories by user. Share links: sharing/share_links.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404

from webapp.teams.models import User
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


def get_trajectory(user: User | AnonymousUser, slug: str) -> Trajectory:
    """Return the trajectory of that slug if the user may see it, with its group, run and team. Raises Http404."""
    trajectory = (
        Trajectory.with_branches.visible_to(user).select_related("group", "run__team").filter(slug=slug).first()
    )
    if trajectory is None:
        raise Http404("This attempt does not exist, or it belongs to a team you are not in.")
    return trajectory
