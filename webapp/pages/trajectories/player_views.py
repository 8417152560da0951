"""The player's page of a trajectory, by its permalink. What a share link opens is in shares_views.py."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.annotations.panel import panel
from webapp.core import formatting
from webapp.explorer.related import same_prompt
from webapp.live.snapshot import played
from webapp.teams.access import role_here
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.board_text import board_text
from webapp.trajectories.models import Trajectory
from webapp.trajectories.share_links import share_panel


def player_context(found: Trajectory, data: dict[str, Any]) -> dict[str, Any]:
    """What templates/trajectories/_player.html needs, and what stands around it. `data` is what the player reads."""
    lost = found.lost_at or {}
    for turn in data["turns"]:
        turn["lost"] = lost.get("action", -1) if lost.get("turn") == turn["turn"] else -1
    return {
        "trajectory": found,
        "group": found.group,
        "run": found.run,
        "data": data,
        "turns": data["turns"],
        "board_text": board_text(data["board"]),
        "over": found.status in Trajectory.ENDED,
        "place": formatting.place(found.group.number, found.member),
    }


@account_optional
@require_GET
@never_cache
def trajectory(request: HttpRequest, slug: str) -> HttpResponse:
    """Board, turns and scrubber; `?turn=2&action=3` opens at that action."""
    found = get_trajectory(request.user, slug)
    role = role_here(request.user, found.run.team_id)
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
