"""Token data of a trajectory as JSON, for the player's token view: by permalink and by share link."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.pages.trajectory_page import private
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.models import Trajectory
from webapp.trajectories.sharing.share_links import find_link
from webapp.trajectories.token_view import get_token_data


@account_optional
@require_safe
@never_cache
def trajectory_tokens(request: HttpRequest, slug: str) -> HttpResponse:
    """Return token data to users who may see the trajectory."""
    return _answer(get_trajectory(request.user, slug))


@require_safe
@never_cache
def shared_tokens(request: HttpRequest, token: str) -> HttpResponse:
    """Return token data to holders of the link."""
    link = find_link(token)
    if link is None:
        raise Http404("This link does not exist, has expired or was revoked.")
    return private(_answer(link.trajectory), link)


def _answer(trajectory: Trajectory) -> HttpResponse:
    return JsonResponse(get_token_data(trajectory), json_dumps_params={"separators": (",", ":"), "ensure_ascii": False})
