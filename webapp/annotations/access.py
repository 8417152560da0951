"""Who may read and leave annotations. They belong to the team: strangers with a link to the run see none of them.

Every member reads and comments, viewers too: reviewers are there to say something. Stars and tags are the writers'.
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
    """The trajectory and the user's role in its team. Raises Http404 for everybody else, whatever the link shows."""
    found = get_trajectory(user, slug)
    role = role_in(user, found.run.team_id)
    if role is None:
        raise Http404("There is no such trajectory, or it belongs to a team you are not in.")
    return found, role


def may_change(user: User | AnonymousUser, role: Membership.Role | None, comment: Comment) -> bool:
    """Whether the user may edit or delete the comment."""
    return role == Membership.Role.ADMIN or (role is not None and comment.author_id == user.pk)


def get_own_comment(user: User | AnonymousUser, slug: str) -> Comment:
    """The comment if the user may change it. Raises Http404 where they may not read it, else PermissionDenied."""
    comment = Comment.objects.select_related("trajectory", "author").filter(slug=slug).first()
    if comment is None:
        raise Http404("There is no such comment.")
    _, role = get_member_trajectory(user, comment.trajectory.slug)
    if not may_change(user, role, comment):
        raise PermissionDenied(NOT_YOURS)
    return comment
