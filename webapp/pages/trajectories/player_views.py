"""The player's page of a trajectory, by its permalink. What a share link opens is in shares_views.py."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.annotations.panel import panel
from webapp.explorer.related import same_prompt
from webapp.pages.trajectory_page import player_context
from webapp.teams.access import role_in_team
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.serialize import trajectory_data as played
from webapp.trajectories.sharing.share_links import share_panel


@account_optional
@require_GET
@never_cache
def trajectory(request: HttpRequest, slug: str) -> HttpResponse:
    """Board, turns and scrubber; `?turn=2&action=3` opens at that action."""
    found = get_trajectory(request.user, slug)
    role = role_in_team(request.user, found.run.team_id)
    members = list(found.group.trajectories.order_by("member").only("slug", "member", "status", "group_id"))
    at = next(index for index, member in enumerate(members) if member.pk == found.pk)
    context = player_context(found, played(found)) | {
        "page": "runs",
        "members": members,
        "previous": members[at - 1] if len(members) > 1 else None,
        "next": members[(at + 1) % len(members)] if len(members) > 1 else None,
        "writer": role in Membership.WRITERS,
        "share": share_panel(request, found, role),
        "tokens_address": reverse("trajectory-tokens", args=[slug]),
    }
    context |= panel(request.user, found, role) | {"again": same_prompt(found)}
    return render(request, "trajectories/trajectory.html", context)


@account_optional
@require_GET
@never_cache
def trajectory_data(request: HttpRequest, slug: str) -> JsonResponse:
    """What the player reads."""
    return JsonResponse(played(get_trajectory(request.user, slug)))
