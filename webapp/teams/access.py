"""Permissions of users in teams. Objects that a user may not see return 404, never 403."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from webapp.core import formatting
from webapp.core.quotas import QuotaExceeded, is_reached, quota
from webapp.teams.models import Membership, Team, User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

READ_ONLY = "You can look at this team's runs but not change them. Ask an admin of the team to make you a member."
NO_TEAM = "Members and admins of a team can create another one. Ask an admin of your team to make you a member."
NO_ADMIN = "Only admins of this team can do this. Ask one of them to do it or to make you an admin."


def signed_in(request: HttpRequest) -> User:
    """Return the logged-in user, for views behind login_required."""
    return cast(User, request.user)


def role_in(user: User | AnonymousUser, team_id: int) -> Membership.Role | None:
    """Return the user's role in the team; None for outsiders and anonymous users."""
    if not user.is_authenticated:
        return None
    role = Membership.objects.filter(team_id=team_id, user_id=user.pk).values_list("role", flat=True).first()
    return None if role is None else Membership.Role(role)


def role_in_team(user: User | AnonymousUser, team_id: int) -> Membership.Role | None:
    """Return `role_in` from the memberships cached on the user. Not for websockets, which stay open for hours."""
    memberships = get_memberships(user)
    return next((Membership.Role(membership.role) for membership in memberships if membership.team_id == team_id), None)


def may_write(user: User | AnonymousUser, team_id: int) -> bool:
    """Return True if the user may launch, steer and share in the team."""
    return role_in(user, team_id) in Membership.WRITERS


def require_writer(user: User | AnonymousUser, team_id: int) -> None:
    """Raise PermissionDenied for users who may only read."""
    if not may_write(user, team_id):
        raise PermissionDenied(READ_ONLY)


def may_admin(user: User | AnonymousUser, team_id: int) -> bool:
    """Return True if the user may invite, change roles and settings, and revoke others' links and tokens."""
    return role_in(user, team_id) == Membership.Role.ADMIN


def may_delete(user: User | AnonymousUser, team_id: int, author_id: int | None) -> bool:
    """Return True if the user may delete an author's work: the author while a writer of the team, and its admins."""
    role = role_in_team(user, team_id)
    return role == Membership.Role.ADMIN or (role in Membership.WRITERS and author_id == user.pk)


def require_admin(user: User | AnonymousUser, team_id: int) -> None:
    """Raise PermissionDenied for users who are not admins of the team."""
    if not may_admin(user, team_id):
        raise PermissionDenied(NO_ADMIN)


def get_team(user: User | AnonymousUser, slug: str) -> Team:
    """Return the team of that slug if the user is in it. Raises Http404."""
    team = Team.objects.visible_to(user).filter(slug=slug).first()
    if team is None:
        raise Http404("There is no such team, or you are not in it.")
    return team


def get_memberships(user: User | AnonymousUser) -> list[Membership]:
    """Return the user's memberships with their teams, by team name. Cached on the user, for menus and buttons."""
    if not user.is_authenticated:
        return []
    cached: list[Membership] | None = user.__dict__.get("_memberships")
    if cached is None:
        memberships = Membership.objects.filter(user_id=user.pk).select_related("team")
        cached = list(memberships.order_by("team__name", "team_id"))
        user.__dict__["_memberships"] = cached
    return cached


def may_create_team(user: User | AnonymousUser) -> bool:
    """Return True if the user may create a team: staff, and writers of any team. Viewers must not use workers."""
    staff = user.is_authenticated and user.is_staff
    return staff or any(membership.role in Membership.WRITERS for membership in get_memberships(user))


def require_may_create_team(user: User) -> None:
    """Raise PermissionDenied for users who may not create a team, QuotaExceeded for those who created too many."""
    if not may_create_team(user):
        raise PermissionDenied(NO_TEAM)
    if not user.is_staff and is_reached("TEAMS_PER_PERSON", user.teams_created.count()):
        count = formatting.plural(quota("TEAMS_PER_PERSON"), "team")
        raise QuotaExceeded(
            f"You have already created {count}, the most that one person may create. Use one of them, or ask "
            "the operator of this site to create another one."
        )


def team_to_write_in(user: User | AnonymousUser, slug: str, missing: str) -> Team:
    """Return the team of that slug in which the user may write; the first one by name without a slug.

    Raises Http404 with `missing` for another team and for users without a team, PermissionDenied for viewers of all
    their teams.
    """
    teams = writable_teams(user)
    if not teams:
        first = Team.objects.visible_to(user).order_by("pk").first()
        if first is None:
            raise Http404("You are not in a team yet.")
        require_writer(user, first.pk)
    team = next((team for team in teams if team.slug == slug), None) if slug else teams[0]
    if team is None:
        raise Http404(missing)
    return team


def writable_teams(user: User | AnonymousUser) -> list[Team]:
    """Return teams in which the user may launch runs, by name; from the cached memberships."""
    return [membership.team for membership in get_memberships(user) if membership.role in Membership.WRITERS]


def require_writable_teams(user: User | AnonymousUser) -> list[Team]:
    """Return `writable_teams`. Raises PermissionDenied if there is none."""
    teams = writable_teams(user)
    if not teams:
        raise PermissionDenied(READ_ONLY)
    return teams
