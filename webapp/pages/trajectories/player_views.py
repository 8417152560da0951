"""The player's page of a trajectory, and its data."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

import envs
from webapp.annotations.panel import panel
from webapp.explorer.excerpts import search_phrases
from webapp.explorer.found import find_place, read_found
from webapp.explorer.related import same_prompt
from webapp.pages.branch_panel import branch_panel
from webapp.pages.link_previews import trajectory_preview
from webapp.pages.trajectories.policy_input import has_template, policy_input
from webapp.pages.trajectories.thought_corrections import offered_texts
from webapp.pages.trajectory_page import list_further_fields, player_context
from webapp.teams.access import role_in_team
from webapp.teams.decorators import account_optional
from webapp.teams.models import Membership
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.branch_origin import branch_origin, place_text
from webapp.trajectories.models import BRANCH, Trajectory
from webapp.trajectories.reading import get_reading
from webapp.trajectories.serialize import player_data, turn_events
from webapp.trajectories.sharing.share_links import share_panel
from webapp.trajectories.token_checks import first_finding
from webapp.trajectories.token_view import count_folded


@account_optional
@require_GET
@never_cache
def trajectory(request: HttpRequest, slug: str) -> HttpResponse:
    """Show board, turns and scrubber; `?turn=2&action=3` opens at that action.

    `?found=` contains the filters of the explorer, to continue with its results.
    """
    trajectory = get_trajectory(request.user, slug)
    role = role_in_team(request.user, trajectory.run.team_id)
    group = Trajectory.with_branches.filter(group=trajectory.group_id).order_by("member")
    members = list(group.only("slug", "member", "status", "group_id"))
    at = next(index for index, member in enumerate(members) if member.pk == trajectory.pk)
    filters = read_found(request.GET.get("found"), inside=role is not None)
    context = player_context(trajectory, player_data(trajectory)) | {
        "page": "runs",
        "members": members,
        "previous": members[at - 1] if len(members) > 1 else None,
        "next": members[(at + 1) % len(members)] if len(members) > 1 else None,
        "found": find_place(trajectory, filters) if filters else None,
        "phrases": json.dumps(search_phrases(filters.text)) if filters and filters.text else "",
        "writer": role in Membership.WRITERS,
        "playable": trajectory.group.environment in envs.names(),
        "share": share_panel(request, trajectory, role),
        "tokens_address": reverse("trajectory-tokens", args=[slug]),
        **_tokens(trajectory),
        "meta": trajectory_preview(request, trajectory),
        "more": list_further_fields(trajectory) if role is not None else [],
    }
    context |= panel(request.user, trajectory, role)
    context |= branch_panel(request.user, trajectory, {"turn": request.GET.get("turn", "1")})
    context["corrections"] = offered_texts(context["turns"])
    if trajectory.split == BRANCH:
        context["origin"] = branch_origin(trajectory)
    else:
        context["again"] = same_prompt(trajectory)
    return render(request, "trajectories/trajectory.html", context)


def _tokens(trajectory: Trajectory) -> dict[str, Any]:
    """Return the address of the page of tokens, and what looks wrong about those that another trainer sent."""
    address = reverse("trajectory-token-page", args=[trajectory.slug])
    if trajectory.run.recorded is None:
        return {"token_page": address}
    reading = get_reading(trajectory)
    return {} if isinstance(reading, str) else {"token_page": address, "token_finding": first_finding(reading)}


@account_optional
@require_GET
@never_cache
def trajectory_data(request: HttpRequest, slug: str) -> JsonResponse:
    """Return the data of the player."""
    trajectory = get_trajectory(request.user, slug)
    return JsonResponse(count_folded(trajectory, player_data(trajectory)))


@account_optional
@require_GET
@never_cache
def policy_input_page(request: HttpRequest, slug: str, turn: int) -> HttpResponse:
    """Show the whole input of the policy at a turn, counted from 1, with the chat template."""
    trajectory = get_trajectory(request.user, slug)
    events = turn_events(trajectory)
    if trajectory.run.recorded is not None or not 1 <= turn <= len(events):
        raise Http404("This attempt has no such turn, or another trainer played it.")
    window = int(trajectory.run.config.get("rollout", {}).get("context_turns") or 0)
    context = {
        "page": "runs",
        "trajectory": trajectory,
        "run": trajectory.run,
        "place": place_text(trajectory),
        "turn": turn,
        "pieces": policy_input(trajectory.group.prompt, events, turn - 1, context_turns=window),
        "response": events[turn - 1]["response"],
        "complete": has_template(events),
        "context_turns": window,
        "first": max(1, turn + 1 - window) if window else 1,
        "meta": trajectory_preview(request, trajectory),
    }
    return render(request, "trajectories/policy_input.html", context)
