"""Who calls the API, and what they may do: the owner of a bearer token in its team, or a person logged in.

What a role allows in a team is decided in webapp.teams.access; how tokens are kept, in webapp.teams.api_tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from webapp.api.errors import Problem
from webapp.runs.models import Run
from webapp.teams.access import READ_ONLY, require_writer, role_in
from webapp.teams.api_tokens import find_token
from webapp.teams.models import ApiToken, Team, User
from webapp.trajectories.models import Trajectory

SAFE = ("GET", "HEAD", "OPTIONS")
Rows = TypeVar("Rows", Run, Trajectory)


@dataclass(frozen=True)
class Caller:
    """A user, and with a token its team: nothing outside it exists for the caller."""

    user: User
    team: Team | None = None
    scopes: tuple[str, ...] = ApiToken.SCOPES

    def runs(self) -> QuerySet[Run]:
        """What lists show."""
        found = Run.objects.of_teams_of(self.user)
        return found if self.team is None else found.filter(team=self.team)

    def run(self, slug: str) -> Run:
        """The run of that slug if the caller may read it. Raises Problem 404."""
        found = Run.objects.visible_to(self.user).select_related("team", "author", "worker")
        if self.team is not None:
            found = found.filter(team=self.team)
        run = found.filter(slug=slug).first()
        if run is None:
            raise Problem(404, f"There is no run {slug}, or it belongs to a team you are not in.")
        return run

    def run_of_team(self, slug: str) -> Run:
        """As run(), but only for its team: what everybody with the address may see is not enough."""
        run = self.run(slug)
        if role_in(self.user, run.team_id) is None:
            raise Problem(404, f"This is for the team of run {slug}, which you are not in.")
        return run

    def run_to_change(self, slug: str) -> Run:
        """As run(), for those who may write in its team. Raises PermissionDenied for readers."""
        run = self.run(slug)
        require_writer(self.user, run.team_id)
        return run

    def trajectory(self, slug: str) -> Trajectory:
        """The trajectory of that slug if the caller may read it. Raises Problem 404."""
        found = Trajectory.objects.visible_to(self.user).select_related("group", "run__team")
        if self.team is not None:
            found = found.filter(run__team=self.team)
        trajectory = found.filter(slug=slug).first()
        if trajectory is None:
            raise Problem(404, f"There is no trajectory {slug}, or it belongs to a team you are not in.")
        return trajectory

    def teams(self) -> list[Team]:
        """Where the caller is a member or a reader, by name."""
        found = Team.objects.visible_to(self.user).order_by("name", "pk")
        return list(found if self.team is None else found.filter(pk=self.team.pk))

    def team_to_write_in(self, slug: str | None) -> Team:
        """The team that gets what is made. Raises PermissionDenied or Problem."""
        teams = Team.objects.writable_by(self.user).order_by("name", "pk")
        writable = list(teams if self.team is None else teams.filter(pk=self.team.pk))
        if not writable:
            raise PermissionDenied(READ_ONLY)
        if slug is None:
            if len(writable) > 1:
                names = ", ".join(f"{team.slug} ({team.name})" for team in writable)
                raise Problem(422, f"You are in several teams: name one of {names}.", fields={"team": "is required"})
            return writable[0]
        for team in writable:
            if team.slug == slug:
                return team
        told = {"team": f"there is no team {slug} in which you may write"}
        raise Problem(422, f"There is no team {slug} in which you may write.", fields=told)


class Token(HttpBearer):
    """An API token of a team: `Authorization: Bearer es_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        found = find_token(token.strip())
        if found is None:
            raise Problem(
                401,
                "This token is not known, has expired, was revoked, or its owner has left the team. Make a new one on "
                "the page of your team.",
                code="not_authenticated",
            )
        scope = ApiToken.READ if request.method in SAFE else ApiToken.WRITE
        if scope not in found.scopes:
            raise Problem(
                403,
                f"This token has not the scope “{scope}”. Make one that has on the page of your team.",
                code="scope",
            )
        return Caller(found.user, found.team, tuple(found.scopes))


class Session(APIKeyCookie):
    """The cookie of a browser that is logged in; what changes something also needs the header X-CSRFToken."""

    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> Caller | None:
        if not request.user.is_authenticated:
            return None
        if request.method not in SAFE and check_csrf(request):
            raise Problem(
                403,
                "The header X-CSRFToken does not fit the cookie csrftoken. Programs had better use an API token, which "
                "needs neither.",
                code="csrf",
            )
        return Caller(request.user)

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        return self(request)


def caller(request: HttpRequest) -> Caller:
    """Who was authenticated for this request."""
    found = request.auth  # type: ignore[attr-defined]
    assert isinstance(found, Caller)
    return found
