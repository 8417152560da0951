"""Endpoint of the authenticated caller."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from webapp.api.auth import caller
from webapp.api.errors import refused
from webapp.api.schemas.account_schemas import Me
from webapp.teams.access import role_in

router = Router(tags=["catalogue"])


@router.get("/me", response={200: Me} | refused(), operation_id="get_me", summary="Read the caller")
def get_me(request: HttpRequest) -> Me:
    """Your name, the scopes of your token, and your teams; with a token, its team only."""
    requester = caller(request)
    roles = [(team, role_in(requester.user, team.pk)) for team in requester.teams()]
    teams = [{"slug": team.slug, "name": team.name, "role": role.value} for team, role in roles if role]
    data = {"username": requester.user.username, "scopes": list(requester.scopes), "teams": teams}
    return Me.model_validate(data)
