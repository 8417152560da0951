"""Endpoint of the authenticated caller."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from webapp.api import schemas
from webapp.api.auth import caller
from webapp.api.errors import refused
from webapp.teams.access import role_in

router = Router(tags=["catalogue"])


@router.get("/me", response={200: schemas.Me} | refused(), operation_id="get_me", summary="Who you are")
def get_me(request: HttpRequest) -> schemas.Me:
    """Your name, what your token allows, and your teams. With a token: its team."""
    who = caller(request)
    roles = [(team, role_in(who.user, team.pk)) for team in who.teams()]
    teams = [{"slug": team.slug, "name": team.name, "role": role.value} for team, role in roles if role]
    return schemas.Me.model_validate({"username": who.user.username, "scopes": list(who.scopes), "teams": teams})
