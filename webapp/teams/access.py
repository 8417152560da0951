"""What a user may see and do. Everything a user may not see does not exist for them: 404, never 403."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from webapp.teams.models import Membership, Team, User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

READ_ONLY = "You can look at this team's runs but not change them. Ask an admin of the team to make you a member."
NO_TEAM = "Members and admins of a team can create another one. Ask an admin of yours to make you a member."
NO_ADMIN = "Only an admin of this team can do this. Ask one of them, or to be made one."


def signed_in(request: HttpRequest) -> User:
    """Whoever is logged in. For views behind login_required."""
    return cast(User, request.user)


def role_in(user: User | AnonymousUser, team_id: int) -> Membership.Role | None:
    """The user's role in the team; None for outsiders and for nobody."""
    if not user.is_authenticated:
        return None
    role = Membership.objects.filter(team_id=team_id, user_id=user.pk).values_list("role", flat=True).first()
    return None if role is None else Membership.Role(role)


def role_in_team(user: User | AnonymousUser, team_id: int) -> Membership.Role | None:
    """As role_in, from what the request has read of its user's places. Not for sockets, whose user stays for hours."""
    return next((Membership.Role(place.role) for place in memberships_of(user) if place.team_id == team_id), None)


def may_write(user: User | AnonymousUser, team_id: int) -> bool:
    """Whether the user may launch, steer and share in the team."""
    return role_in(user, team_id) in Membership.WRITERS


def require_writer(user: User | AnonymousUser, team_id: int) -> None:
    """Raise PermissionDenied for those who may only read."""
    if not may_write(user, team_id):
        raise PermissionDenied(READ_ONLY)


def may_admin(user: User | AnonymousUser, team_id: int) -> bool:
    """Whether the user may invite, change roles and settings, and revoke what others made in the team."""
    return role_in(user, team_id) == Membership.Role.ADMIN


def require_admin(user: User | AnonymousUser, team_id: int) -> None:
    """Raise PermissionDenied for those who do not manage the team."""
    if not may_admin(user, team_id):
        raise PermissionDenied(NO_ADMIN)


def get_team(user: User | AnonymousUser, slug: str) -> Team:
    """The team of that slug if the user is in it. Raises Http404."""
    team = Team.objects.visible_to(user).filter(slug=slug).first()
    if team is None:
        raise Http404("There is no such team, or you are not in it.")
    return team


def memberships_of(user: User | AnonymousUser) -> list[Membership]:
    """Where the user has a place, with the teams, by name. Read once for each page: menus and buttons ask for it."""
    if not user.is_authenticated:
        return []
    known: list[Membership] | None = user.__dict__.get("_places")
    if known is None:
        mine = Membership.objects.filter(user_id=user.pk).select_related("team")
        known = list(mine.order_by("team__name", "team_id"))
        user.__dict__["_places"] = known
    return known


def may_create_team(user: User | AnonymousUser) -> bool:
    """Whoever may launch somewhere, and the site's staff. Those who were only asked to look use no machines."""
    staff = user.is_authenticated and user.is_staff
    return staff or any(place.role in Membership.WRITERS for place in memberships_of(user))


def writable_teams(user: User | AnonymousUser) -> list[Team]:
    """Where the user may launch runs, by name. For pages: as of the beginning of the request."""
    return [place.team for place in memberships_of(user) if place.role in Membership.WRITERS]
