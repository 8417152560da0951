"""Tokens of a trajectory: data of the player's token view, and the page of everything the policy read and wrote."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from trainer.config.run import POCKET
from webapp.pages.link_previews import trajectory_preview
from webapp.pages.token_panel import token_panel
from webapp.pages.trajectory_page import private
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.branch_origin import place_text
from webapp.trajectories.computed_text import describe_computed
from webapp.trajectories.models import Trajectory
from webapp.trajectories.reading import LEGEND, get_reading
from webapp.trajectories.sharing.share_links import find_link
from webapp.trajectories.token_checks import token_checks, token_facts
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


@account_optional
@require_safe
@never_cache
def tokens_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show everything that the policy read and wrote in an attempt, token by token, and what looks wrong about it."""
    trajectory = get_trajectory(request.user, slug)
    reading, model = get_reading(trajectory), trajectory.run.config.get("policy", {}).get("model", "")
    context = {
        "page": "runs",
        "trajectory": trajectory,
        "run": trajectory.run,
        "place": place_text(trajectory),
        "meta": trajectory_preview(request, trajectory),
        "model": "" if model == POCKET else model,
    }
    if isinstance(reading, str):
        panel = token_panel(request.user, trajectory)
        return render(request, "trajectories/tokens.html", context | panel | {"reason": reading})
    context |= {
        "reading": reading,
        "checks": token_checks(reading),
        "facts": token_facts(reading),
        "notes": reading.notes,
        "computed": describe_computed(trajectory, reading.computed) if reading.computed else [],
        "kinds": [(kind, name) for kind, name in LEGEND.items() if kind in reading.kinds()],
    }
    return render(request, "trajectories/tokens.html", context)


@account_optional
@require_safe
@never_cache
def trajectory_reading(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the tokens of an attempt in reading order, in columns."""
    reading = get_reading(get_trajectory(request.user, slug))
    if isinstance(reading, str):
        raise Http404(reading)
    return JsonResponse(reading.columns(), json_dumps_params={"separators": (",", ":"), "ensure_ascii": False})
