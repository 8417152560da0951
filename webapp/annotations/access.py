"""Access to annotations. They belong to the team: users outside it see none, even with a link to the run.

Every member reads and comments, viewers included: reviewers are there to comment. Only writers star and tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
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
    """The trajectory and the user's role in its team. Raises Http404 for users outside it, shared or not."""
    trajectory = get_trajectory(user, slug)
    role = role_in(user, trajectory.run.team_id)
    if role is None:
        raise Http404("This trajectory does not exist, or it belongs to a team you are not in.")
    return trajectory, role


def may_change(user: User | AnonymousUser, role: Membership.Role | None, comment: Comment) -> bool:
    """Whether the user may edit or delete the comment."""
    return role == Membership.Role.ADMIN or (role is not None and comment.author_id == user.pk)


def get_own_comment(user: User | AnonymousUser, slug: str) -> Comment:
    """The comment, to change it. Raises Http404 if the user may not read it, else PermissionDenied."""
    comment = Comment.objects.select_related("trajectory", "author").filter(slug=slug).first()
    if comment is None:
        raise Http404("This comment does not exist.")
    _, role = get_member_trajectory(user, comment.trajectory.slug)
    if not may_change(user, role, comment):
        raise PermissionDenied(NOT_YOURS)
    return comment
