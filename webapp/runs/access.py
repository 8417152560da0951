"""Runs that a user may see, and permissions on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.http import Http404

from webapp.runs.models import Run
from webapp.teams.access import may_admin, may_delete, role_in_team
from webapp.teams.models import User

NOT_YOURS_TO_HIDE = "Only the author or an admin of the team can make a run private: you would no longer see it."

NOT_YOURS_TO_HURRY = "Only an admin of the team may give a run high priority: it goes ahead of the team's other runs."

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


def get_run(user: User | AnonymousUser, slug: str) -> Run:
    """Return the run of that slug if the user may read it, with its team, author and worker. Raises Http404."""
    run = Run.objects.visible_to(user).with_alarm().select_related("team", "author", "worker").filter(slug=slug).first()
    if run is None:
        raise Http404("There is no such run, or it belongs to a team you are not in.")
    return run


def get_run_of_team(user: User | AnonymousUser, slug: str) -> Run:
    """Return the run like `get_run`, but only for members of its team: a public link is not enough."""
    run = get_run(user, slug)
    if role_in_team(user, run.team_id) is None:
        raise Http404("This belongs to a team you are not in.")
    return run


def require_may_set(user: User | AnonymousUser, run: Run, visibility: Run.Visibility) -> None:
    """Raise PermissionDenied for a member who would hide another member's run from the team."""
    if visibility == Run.Visibility.PRIVATE and run.author_id != user.pk and not may_admin(user, run.team_id):
        raise PermissionDenied(NOT_YOURS_TO_HIDE)


def require_may_delete(user: User | AnonymousUser, run: Run) -> None:
    """Raise PermissionDenied unless `may_delete`."""
    if not may_delete(user, run.team_id, run.author_id):
        raise PermissionDenied("Only the author of this run and the admins of its team may delete it.")


def require_may_prefer(user: User | AnonymousUser, team_id: int, priority: Run.Priority) -> None:
    """Raise PermissionDenied for high priority unless the user is an admin of the team."""
    if priority == Run.Priority.HIGH and not may_admin(user, team_id):
        raise PermissionDenied(NOT_YOURS_TO_HURRY)
