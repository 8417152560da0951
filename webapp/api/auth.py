"""Authentication and permissions of API callers: bearer tokens of a team, or the session of a logged-in user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from webapp.api.errors import Problem
from webapp.api.rate_limit import require_rate
from webapp.runs.models import Run, RunQuerySet
from webapp.teams.access import READ_ONLY, require_writer, role_in
from webapp.teams.api_tokens import find_token
from webapp.teams.audit import note_token
from webapp.teams.models import ApiToken, Team, User
from webapp.trajectories.models import Trajectory

SAFE = ("GET", "HEAD", "OPTIONS")
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class Caller:
    """An authenticated user. With a token, also its team: objects outside it return 404."""

    user: User
    team: Team | None = None
    scopes: tuple[str, ...] = ApiToken.SCOPES

    def runs(self) -> RunQuerySet:
        """Return runs of the caller's teams, for lists."""
        runs = Run.objects.listed_for(self.user)
        return runs if self.team is None else runs.filter(team=self.team)

    def find(self, visible: QuerySet[Row], slug: str, noun: str, team: str = "team") -> Row:
        """Return the row of that slug if the user may read it; with a token, only in its team. Raises Problem 404.

        Args:
            noun: the row's name in the message.
            team: lookup of the row's team.
        """
        if self.team is not None:
            visible = visible.filter(**{team: self.team})
        row = visible.filter(slug=slug).first()
        if row is None:
            raise Problem(404, f"There is no {noun} {slug}, or it belongs to a team you are not in.")
        return row

    def run(self, slug: str) -> Run:
        """Return the run of that slug if the caller may read it. Raises Problem 404."""
        visible = Run.objects.visible_to(self.user).select_related("team", "author", "worker")
        return self.find(visible, slug, "run")

    def run_of_team(self, slug: str) -> Run:
        """Return the run, as run(), but only for members of its team, even if it is public. Raises Problem 404."""
        run = self.run(slug)
        if role_in(self.user, run.team_id) is None:
            raise Problem(404, f"Only members of the team of run {slug} may read this, and you are not one.")
        return run

    def run_to_change(self, slug: str) -> Run:
        """Return the run, as run(), for users who may write in its team. Raises PermissionDenied for readers."""
        run = self.run(slug)
        require_writer(self.user, run.team_id)
        return run

    def trajectory(self, slug: str) -> Trajectory:
        """Return the trajectory of that slug if the caller may read it. Raises Problem 404."""
        visible = Trajectory.with_branches.visible_to(self.user).select_related("group", "run__team")
        return self.find(visible, slug, "trajectory", "run__team")

    def teams(self) -> list[Team]:
        """Return teams of the caller, by name."""
        teams = Team.objects.visible_to(self.user).order_by("name", "pk")
        return list(teams if self.team is None else teams.filter(pk=self.team.pk))

    def team_to_write_in(self, slug: str | None) -> Team:
        """Return the team in which to create a run: `slug`, or the only candidate.

        Raises PermissionDenied or Problem.
        """
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
        fields = {"team": f"there is no team {slug} in which you may write"}
        raise Problem(422, f"There is no team {slug} in which you may write.", fields=fields)


class Token(HttpBearer):
    """An API token of a team: `Authorization: Bearer es_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        api_token = find_token(token.strip())
        if api_token is None:
            raise Problem(
                401,
                "This token is unknown, expired or revoked, or its owner has left the team. Create a new one on your "
                "team's page.",
                code="not_authenticated",
            )
        scope = ApiToken.READ if request.method in SAFE else ApiToken.WRITE
        if scope not in api_token.scopes:
            raise Problem(
                403,
                f"This token does not have the scope “{scope}”. Create one that does on your team's page.",
                code="scope",
            )
        note_token(request, api_token)
        require_rate(request, api_token)
        return Caller(api_token.user, api_token.team, tuple(api_token.scopes))


class Session(APIKeyCookie):
    """The session cookie of a logged-in browser; changes also require the header X-CSRFToken."""

    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> Caller | None:
        if not request.user.is_authenticated:
            return None
        if request.method not in SAFE and check_csrf(request):
            raise Problem(
                403,
                "The header X-CSRFToken does not match the cookie csrftoken. Programs should use an API token, which "
                "needs neither.",
                code="csrf",
            )
        return Caller(request.user)

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        return self(request)


def caller(request: HttpRequest) -> Caller:
    """Return the authenticated caller of the request."""
    authenticated = request.auth  # type: ignore[attr-defined]
    assert isinstance(authenticated, Caller)
    return authenticated
