"""Access to annotations. They belong to the team: other users see none, even with a link to the run.

Every member reads and comments, viewers included: reviewers are there to comment. Only writers star and tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404

from webapp.annotations.models import Comment
from webapp.teams.access import role_in
from webapp.teams.models import Membership, User
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

NOT_YOURS = "Only its author or an admin of the team can change this comment."


def get_member_trajectory(user: User | AnonymousUser, slug: str) -> tuple[Trajectory, Membership.Role]:
    """Return the trajectory and the user's role in its team. Raises Http404 for users outside it, shared or not."""
    trajectory = get_trajectory(user, slug)
    role = role_in(user, trajectory.run.team_id)
    if role is None:
        raise Http404("This attempt does not exist, or it belongs to a team you are not in.")
    return trajectory, role


def may_change(user: User | AnonymousUser, role: Membership.Role | None, comment: Comment) -> bool:
    """Return True if the user may edit or delete the comment."""
    return role == Membership.Role.ADMIN or (role is not None and comment.author_id == user.pk)


def readable_comments(user: User | AnonymousUser) -> QuerySet[Comment]:
    """Return comments of the user's teams on trajectories that the user may see, with author, group, run and team."""
    teams = Membership.objects.filter(user_id=user.pk or 0).values("team")
    visible = Comment.objects.filter(
        trajectory__in=Trajectory.with_branches.visible_to(user).order_by().values("pk"),
        trajectory__run__team__in=teams,
    )
    return visible.select_related("author", "trajectory__group", "trajectory__run__team")


def get_own_comment(user: User | AnonymousUser, slug: str) -> Comment:
    """Return a comment to change. Raises Http404 if the user may not read it, else PermissionDenied."""
    comment = readable_comments(user).filter(slug=slug).first()
    if comment is None:
        raise Http404("This comment does not exist, or it belongs to a team you are not in.")
    require_may_change(user, comment)
    return comment


def require_may_change(user: User | AnonymousUser, comment: Comment) -> None:
    """Raise PermissionDenied unless the user may edit and delete the comment."""
    if not may_change(user, role_in(user, comment.trajectory.run.team_id), comment):
        raise PermissionDenied(NOT_YOURS)
